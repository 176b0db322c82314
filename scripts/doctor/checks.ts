import { type CertificateDetail, DescribeCertificateCommand } from '@aws-sdk/client-acm';
import { GetAccountCommand } from '@aws-sdk/client-api-gateway';
import { DescribeStacksCommand, DescribeTypeCommand, type Stack } from '@aws-sdk/client-cloudformation';
import { ListDistributionsCommand } from '@aws-sdk/client-cloudfront';
import { DescribeTableCommand } from '@aws-sdk/client-dynamodb';
import {
  DescribeAddressesCommand,
  DescribeAvailabilityZonesCommand,
  DescribeInternetGatewaysCommand,
  DescribeNatGatewaysCommand,
  DescribeSubnetsCommand,
  DescribeVpcsCommand,
} from '@aws-sdk/client-ec2';
import { ListGatewaysCommand } from '@aws-sdk/client-ecs';
import { GetPolicyCommand, GetRoleCommand } from '@aws-sdk/client-iam';
import { DescribeKeyCommand } from '@aws-sdk/client-kms';
import { GetAccountSettingsCommand } from '@aws-sdk/client-lambda';
import { ListManagedMicrovmImageVersionsCommand } from '@aws-sdk/client-lambda-microvms';
import { GetHostedZoneCommand } from '@aws-sdk/client-route-53';
import { DescribeSecretCommand } from '@aws-sdk/client-secrets-manager';
import { ListServiceQuotasCommand } from '@aws-sdk/client-service-quotas';
import { GetEmailIdentityCommand, GetAccountCommand as GetSesAccountCommand } from '@aws-sdk/client-sesv2';
import { GetTopicAttributesCommand } from '@aws-sdk/client-sns';
import { GetParameterCommand } from '@aws-sdk/client-ssm';
import { platformNameOf, type StageFile, tablePrefixOf } from '#lib/config.ts';
import { type Clients, type Obstacle, read } from './account.ts';
import { needsOf, QUOTAS, type Quota, quotaOf, UNRESERVED_EXECUTIONS, USUAL_EXECUTIONS } from './quotas.ts';

export const STATES = ['ok', 'warning', 'fails', 'unknown'] as const;
export type State = (typeof STATES)[number];

export interface Finding {
  readonly check: string;
  readonly state: State;
  /** What was found, and what follows from it. */
  readonly text: string;
  /** What to do about it. */
  readonly mend?: string;
}
type Result = Omit<Finding, 'check'>;

/** What checks read from. */
export interface Patient {
  readonly stage: StageFile;
  readonly account: string;
  /** First part of ARNs: `aws`, or that of another group of Regions. */
  readonly partition: string;
  readonly region: string;
  readonly clients: Clients;
  /** Returns a stack of the stage by the last part of its name, or `undefined` where there is none. */
  stack(name: string): Promise<Stack | undefined>;
}

export interface Check {
  readonly name: string;
  /** Whether the stage needs what is checked. @default - always */
  readonly concerns?: (stage: StageFile) => boolean;
  readonly run: (patient: Patient) => Promise<Result>;
}

const ok = (text: string): Result => ({ state: 'ok', text });
const warning = (text: string, mend?: string): Result => ({ state: 'warning', text, mend });
const fails = (text: string, mend: string): Result => ({ state: 'fails', text, mend });
const unknown = (text: string, mend?: string): Result => ({ state: 'unknown', text, mend });

/** Version of the bootstrap stack that the CDK's output requires; `doctor.aws.test.ts` compares it with an assembly. */
export const BOOTSTRAP_VERSION = 6;
/** The CDK's own qualifier. */
const QUALIFIER = 'hnb659fds';

const isFargate = ({ sandbox }: StageFile): boolean => sandbox.kind === 'fargate';
const isMicrovm = ({ sandbox }: StageFile): boolean => sandbox.kind === 'microvm';
const hasServices = ({ services }: StageFile): boolean => services.kind !== 'off';
const servicesOf = ({ services }: StageFile) => (services.kind === 'off' ? undefined : services);
const taskSettings = ({ sandbox }: StageFile) => (sandbox.kind === 'fargate' ? sandbox : undefined);
const webDomain = ({ web }: StageFile) => (web.kind === 'off' ? undefined : web.domain);
const usesTasks = (stage: StageFile): boolean => isFargate(stage) || hasServices(stage);
const natNetworks = (stage: StageFile) => needsOf(stage).networks.filter(({ egress }) => egress === 'nat');

const raise = ({ service, code }: Quota): string =>
  `ask for more, which takes hours to days: aws service-quotas request-service-quota-increase --service-code ${service} --quota-code ${code} --desired-value …`;

/** Whether a stack exists and its creation has succeeded. */
const isStanding = (stack: Stack | undefined): boolean =>
  /^(CREATE_COMPLETE|UPDATE_|IMPORT_)/.test(stack?.StackStatus ?? '');

/** Networks of the stage that the account does not have yet. */
async function newNetworks({ stage, stack }: Patient) {
  const needed = needsOf(stage).networks;
  const standing = await Promise.all(needed.map((network) => stack(network.stack)));
  return needed.filter((_, i) => !isStanding(standing[i]));
}

/** Compares what the account has and gets with a quota. */
async function room({ clients }: Patient, quota: Quota, what: string, used: number, added: number): Promise<Result> {
  const max = await quotaOf(clients, quota);
  const text = `${max} ${what}, ${used} in use, ${added} more for the stage`;
  return used + added <= max ? ok(text) : fails(`${text}: their creation is refused`, raise(quota));
}

/** Checks that a certificate is issued and covers a name. */
function certificate(found: CertificateDetail | undefined, arn: string, name: string): Result {
  const mend = `request or import one for ${name} (aws acm request-certificate), and name it in the stage file`;
  if (!found) return fails(`there is no certificate ${arn}`, mend);
  const names = found.SubjectAlternativeNames ?? [found.DomainName!];
  if (found.Status !== 'ISSUED')
    return fails(`the certificate for ${names.join(', ')} is ${found.Status}`, 'finish its validation');
  const covering = [name, name.replace(/^[^.]+/, '*')];
  if (!names.some((each) => covering.includes(each)))
    return fails(`the certificate is for ${names.join(', ')}, not for ${name}`, mend);
  return ok(`issued for ${names.join(', ')}`);
}

const regionOfArn = (arn: string): string => arn.split(':')[3]!;

async function certificateIn(patient: Patient, arn: string, name: string): Promise<Result> {
  const { clients, region } = patient;
  if (regionOfArn(arn) !== region) {
    return fails(`the certificate is in ${regionOfArn(arn)}, the stage in ${region}`, `request one in ${region}`);
  }
  const answer = await read(
    'acm:DescribeCertificate',
    () => clients.acm.send(new DescribeCertificateCommand({ CertificateArn: arn })),
    ['ResourceNotFoundException'],
  );
  return certificate(answer?.Certificate, arn, name);
}

async function role(
  { clients }: Patient,
  name: string,
  service: string,
  missing: typeof fails | typeof warning,
): Promise<Result> {
  const found = await read(
    'iam:GetRole',
    () => clients.iam.send(new GetRoleCommand({ RoleName: name })),
    ABSENT_IN_IAM,
  );
  if (found) return ok(`${name} exists`);
  return missing(
    `${name} is missing: the first resource that needs it may fail while it is created`,
    `aws iam create-service-linked-role --aws-service-name ${service}.amazonaws.com`,
  );
}
const ABSENT_IN_IAM = ['NoSuchEntity', 'NoSuchEntityException'];

/** States of a stack that block a deployment, with what ends them. */
const BLOCKED: Readonly<Record<string, string>> = {
  CREATE_FAILED: 'delete-stack',
  ROLLBACK_FAILED: 'delete-stack',
  DELETE_FAILED: 'delete-stack',
  UPDATE_ROLLBACK_FAILED: 'continue-update-rollback',
};

/** Names of the stage's stacks, without the platform's prefix, in the order of a deployment. */
export const STACKS = ['data', 'schedules', 'api', 'compute', 'services', 'web', 'observability'] as const;

const stackCheck = (name: (typeof STACKS)[number]): Check => ({
  name: `Stack ${name}`,
  async run({ stage, stack }) {
    const found = await stack(name);
    if (!found) return ok('does not exist yet');
    const { StackName, StackStatus: status = '', StackStatusReason: reason = '', EnableTerminationProtection } = found;
    const command = BLOCKED[status];
    if (command !== undefined) {
      return fails(
        `${status}${reason && `: ${reason.slice(0, 200)}`}`,
        `aws cloudformation ${command} --stack-name ${StackName}`,
      );
    }
    if (status === 'ROLLBACK_COMPLETE') {
      if (!EnableTerminationProtection)
        return warning(`${status}: its creation failed; the CDK deletes it and begins again`);
      return fails(
        `${status}, and protected: it can neither be updated nor replaced`,
        `aws cloudformation update-termination-protection --no-enable-termination-protection --stack-name ${StackName}`,
      );
    }
    if (status.endsWith('_IN_PROGRESS') && status !== 'REVIEW_IN_PROGRESS') {
      return fails(
        `${status}: something else changes it`,
        `wait until it is over, which ${stage.name}'s events show in CloudFormation`,
      );
    }
    return ok(status);
  },
});

const secretCheck = (member: 'stripe' | 'operator' | 'a2a' | 'oidc' | 'telemetry'): Check => ({
  name: `Secret of ${member}`,
  concerns: (stage) => stage[member]?.secretName !== undefined,
  async run({ stage, clients }) {
    const secretName = stage[member]!.secretName!;
    const found = await read(
      'secretsmanager:DescribeSecret',
      () => clients.secrets.send(new DescribeSecretCommand({ SecretId: secretName })),
      ['ResourceNotFoundException'],
    );
    if (found && !found.DeletedDate) return ok(`${secretName} exists`);
    return fails(
      `${secretName} ${found ? 'is being deleted' : 'does not exist'}: functions that read it fail`,
      `aws secretsmanager ${found ? `restore-secret --secret-id ${secretName}` : `create-secret --name ${secretName} --secret-string …`}`,
    );
  },
});

/** Whether CloudFormation knows a resource type in the Region. */
async function knowsType({ clients }: Patient, name: string): Promise<boolean> {
  const found = await read(
    'cloudformation:DescribeType',
    () => clients.cloudFormation.send(new DescribeTypeCommand({ Type: 'RESOURCE', TypeName: name })),
    ['TypeNotFoundException', 'CFNRegistryException'],
  );
  return found !== undefined;
}

/** Whether the Region lacks the action, or the service, whose name there is then unknown. */
const isMissingHere = (error: unknown): boolean => {
  const { obstacle } = error as { obstacle?: Obstacle };
  return obstacle === 'not-offered' || obstacle === 'unreachable';
};

export const CHECKS: readonly Check[] = [
  {
    name: 'Bootstrap',
    async run({ stage: { bootstrapQualifier: qualifier = QUALIFIER }, clients, account, region }) {
      const Name = `/cdk-bootstrap/${qualifier}/version`;
      const found = await read('ssm:GetParameter', () => clients.ssm.send(new GetParameterCommand({ Name })), [
        'ParameterNotFound',
      ]);
      const own =
        qualifier === QUALIFIER ? '' : ` --qualifier ${qualifier} --toolkit-stack-name CDKToolkit-${qualifier}`;
      const mend = `npm run cdk -- bootstrap aws://${account}/${region}${own}`;
      if (!found) return fails(`${region} is not bootstrapped with the qualifier ${qualifier}`, mend);
      const version = Number(found.Parameter!.Value);
      if (version < BOOTSTRAP_VERSION)
        return fails(`version ${version} of the bootstrap stack, ${BOOTSTRAP_VERSION} is needed`, mend);
      return ok(`version ${version} of the bootstrap stack, qualifier ${qualifier}`);
    },
  },
  {
    name: 'Permissions boundary',
    concerns: ({ permissionsBoundary }) => permissionsBoundary !== undefined,
    async run({ stage: { permissionsBoundary: name }, clients, account, partition }) {
      const PolicyArn = `arn:${partition}:iam::${account}:policy/${name}`;
      const found = await read(
        'iam:GetPolicy',
        () => clients.iam.send(new GetPolicyCommand({ PolicyArn })),
        ABSENT_IN_IAM,
      );
      if (found) return ok(`${name} exists`);
      return fails(
        `there is no policy ${name}: no role can be created`,
        `create it, or remove permissionsBoundary from the stage file`,
      );
    },
  },
  ...STACKS.map(stackCheck),
  {
    name: 'Tables of an earlier stage',
    async run({ stage, clients, stack }) {
      const TableName = `${tablePrefixOf(stage)}main`;
      if (isStanding(await stack('data'))) return ok('the tables belong to the stack data');
      const found = await read(
        'dynamodb:DescribeTable',
        () => clients.dynamoDb.send(new DescribeTableCommand({ TableName })),
        ['ResourceNotFoundException'],
      );
      if (!found) return ok(`there is no table ${TableName}`);
      return fails(
        `${TableName} exists without its stack: CloudFormation cannot create it again`,
        'import or delete what an earlier stage left (docs/deploy.md, "Removing a stage")',
      );
    },
  },
  {
    name: 'Lambda concurrency',
    async run({ stage, clients, stack }) {
      const settings = await read('lambda:GetAccountSettings', () =>
        clients.lambda.send(new GetAccountSettingsCommand()),
      );
      const { ConcurrentExecutions: max = 0, UnreservedConcurrentExecutions: unreserved = 0 } = settings!.AccountLimit!;
      const { executionsAtOnce, reservedExecutions } = needsOf(stage);
      const mend = raise(QUOTAS.lambdaConcurrency);
      const free = unreserved - UNRESERVED_EXECUTIONS;
      if (reservedExecutions > Math.max(0, free) && !isStanding(await stack('api'))) {
        return fails(
          `the stage reserves ${reservedExecutions} executions, ${Math.max(0, free)} of ${max} can be reserved`,
          mend,
        );
      }
      if (max < executionsAtOnce) {
        return fails(
          `${max} executions at once: the deployment alone calls ${executionsAtOnce} functions at the same time`,
          mend,
        );
      }
      if (max < USUAL_EXECUTIONS) return warning(`${max} executions at once: each waiting call is one`, mend);
      return ok(`${max} executions at once, ${unreserved} of them not reserved`);
    },
  },
  {
    name: 'Fargate processors',
    concerns: usesTasks,
    async run({ stage, clients }) {
      const { cores } = needsOf(stage);
      const max = await quotaOf(clients, QUOTAS.fargate);
      const text = `${max} processors in the account and Region`;
      const mend = `${raise(QUOTAS.fargate)}; or lower sandbox.max`;
      if (max < cores.min) return fails(`${text}: the stage needs ${cores.min} to begin`, mend);
      if (max < cores.max)
        return warning(
          `${text}: the stage may use ${cores.max} at its own limit, and tasks beyond the quota do not start`,
          mend,
        );
      return ok(`${text}, the stage uses at most ${cores.max} besides further services`);
    },
  },
  {
    name: 'Fargate Spot processors',
    concerns: (stage) => needsOf(stage).spotCores > 0,
    async run({ stage, clients }) {
      const max = await quotaOf(clients, QUOTAS.fargateSpot);
      if (max >= needsOf(stage).spotCores) return ok(`${max} processors in the account and Region`);
      return warning(
        `${max} processors: runs that may be retried use tasks on demand instead`,
        raise(QUOTAS.fargateSpot),
      );
    },
  },
  {
    name: 'CodeBuild on ARM',
    concerns: usesTasks,
    async run({ stage, clients }) {
      const max = await quotaOf(clients, QUOTAS.armBuilds);
      if (max >= needsOf(stage).builds) return ok(`${max} small ARM builds at once`);
      return fails(
        `${max} small ARM builds at once: the image of the runner is not built ("Cannot have more than 0 builds in queue")`,
        raise(QUOTAS.armBuilds),
      );
    },
  },
  {
    name: 'VPCs',
    concerns: (stage) => needsOf(stage).networks.length > 0,
    async run(patient) {
      const found = await read('ec2:DescribeVpcs', () => patient.clients.ec2.send(new DescribeVpcsCommand()));
      return room(patient, QUOTAS.vpcs, 'VPCs in the Region', found!.Vpcs!.length, (await newNetworks(patient)).length);
    },
  },
  {
    name: 'Internet gateways',
    concerns: (stage) => needsOf(stage).networks.some(({ egress }) => egress !== 'endpoints'),
    async run(patient) {
      const found = await read('ec2:DescribeInternetGateways', () =>
        patient.clients.ec2.send(new DescribeInternetGatewaysCommand()),
      );
      const added = (await newNetworks(patient)).filter(({ egress }) => egress !== 'endpoints').length;
      return room(
        patient,
        QUOTAS.internetGateways,
        'internet gateways in the Region',
        found!.InternetGateways!.length,
        added,
      );
    },
  },
  {
    name: 'Elastic IPs',
    concerns: (stage) => natNetworks(stage).length > 0,
    async run(patient) {
      const found = await read('ec2:DescribeAddresses', () => patient.clients.ec2.send(new DescribeAddressesCommand()));
      const added = (await newNetworks(patient))
        .filter(({ egress }) => egress === 'nat')
        .reduce((sum, { zones }) => sum + (zones?.length ?? 2), 0);
      return room(patient, QUOTAS.elasticIps, 'elastic IPs in the Region', found!.Addresses!.length, added);
    },
  },
  {
    name: 'NAT gateways',
    concerns: (stage) => natNetworks(stage).length > 0,
    async run(patient) {
      const { clients } = patient;
      const states = [{ Name: 'state', Values: ['pending', 'available'] }];
      const gateways = await read('ec2:DescribeNatGateways', () =>
        clients.ec2.send(new DescribeNatGatewaysCommand({ Filter: states })),
      );
      const subnetIds = gateways!.NatGateways!.flatMap(({ SubnetId }) => SubnetId ?? []);
      const subnets =
        subnetIds.length === 0
          ? undefined
          : await read('ec2:DescribeSubnets', () =>
              clients.ec2.send(new DescribeSubnetsCommand({ SubnetIds: [...new Set(subnetIds)] })),
            );
      const zoneOf = new Map(
        (subnets?.Subnets ?? []).map(({ SubnetId, AvailabilityZone }) => [SubnetId, AvailabilityZone]),
      );
      const perZone = Map.groupBy(subnetIds, (id) => zoneOf.get(id));
      const fullest = Math.max(0, ...[...perZone.values()].map(({ length }) => length));
      const added = (await newNetworks(patient)).filter(({ egress }) => egress === 'nat').length;
      return room(patient, QUOTAS.natGateways, 'NAT gateways in a zone', fullest, added);
    },
  },
  {
    name: 'Zones',
    concerns: (stage) => needsOf(stage).networks.some(({ zones }) => zones !== undefined),
    async run({ stage, clients, region }) {
      const found = await read('ec2:DescribeAvailabilityZones', () =>
        clients.ec2.send(new DescribeAvailabilityZonesCommand()),
      );
      const known = found!.AvailabilityZones!.map(({ ZoneName }) => ZoneName!);
      const wanted = [...new Set(needsOf(stage).networks.flatMap(({ zones }) => zones ?? []))];
      const missing = wanted.filter((zone) => !known.includes(zone));
      if (missing.length === 0) return ok(`${wanted.join(', ')} exist`);
      return fails(`${region} has no ${missing.join(', ')}`, `name some of ${known.join(', ')} in the stage file`);
    },
  },
  {
    name: 'Your own network',
    concerns: (stage) => taskSettings(stage)?.vpc !== undefined,
    async run({ stage, clients, region }) {
      const { id, taskSubnetIds, functionSubnetIds } = taskSettings(stage)!.vpc!;
      const SubnetIds = [...new Set([...taskSubnetIds, ...functionSubnetIds])];
      const found = await read(
        'ec2:DescribeSubnets',
        () => clients.ec2.send(new DescribeSubnetsCommand({ SubnetIds })),
        ['InvalidSubnetID.NotFound'],
      );
      const mend = 'name subnets of sandbox.vpc.id in the stage file';
      if (!found) return fails(`${region} lacks some of ${SubnetIds.join(', ')}`, mend);
      const strange = found.Subnets!.filter(({ VpcId }) => VpcId !== id).map(({ SubnetId }) => SubnetId);
      return strange.length === 0
        ? ok(`its ${SubnetIds.length} subnets exist`)
        : fails(`${strange.join(', ')} are not in ${id}`, mend);
    },
  },
  {
    name: 'Requests a second',
    async run({ stage: { throttle }, clients }) {
      const [rate, burst] = [await quotaOf(clients, QUOTAS.apiRate), await quotaOf(clients, QUOTAS.apiBurst)];
      const text = `${rate} a second and ${burst} at once in the account and Region, the stage allows ${throttle.requestsPerSecond} and ${throttle.burst}`;
      if (rate >= throttle.requestsPerSecond && burst >= throttle.burst) return ok(text);
      return warning(`${text}: the lower ones apply`, raise(QUOTAS.apiRate));
    },
  },
  {
    name: 'Resources of the API',
    async run({ stage, clients }) {
      const [needed, max] = [needsOf(stage).apiResources, await quotaOf(clients, QUOTAS.apiResources)];
      const text = `${max} in an API, the platform has ${needed}`;
      return needed <= max ? ok(text) : fails(text, raise(QUOTAS.apiResources));
    },
  },
  {
    name: 'Log role of API Gateway',
    concerns: ({ setsLoggingRole }) => !setsLoggingRole,
    async run({ clients, region }) {
      const found = await read('apigateway:GET', () => clients.apiGateway.send(new GetAccountCommand()));
      if (found!.cloudwatchRoleArn) return ok(`${region} has one`);
      return fails(
        `${region} has none, and the stage does not set it: the API cannot write its log`,
        'remove setsLoggingRole: false from the stage file',
      );
    },
  },
  {
    name: 'EventBridge Scheduler',
    async run({ clients }) {
      const found = await read('servicequotas:ListServiceQuotas', () =>
        clients.quotas.send(new ListServiceQuotasCommand({ ServiceCode: 'scheduler', MaxResults: 100 })),
      );
      // AWS documents these quotas by name only.
      const limit = found!.Quotas?.find(({ QuotaName }) => /^invocations throttle limit/i.test(QuotaName ?? ''));
      if (limit === undefined) return unknown('Service Quotas does not list how many timers may fire in a second');
      return ok(`${limit.Value} timers may fire in a second; further ones of the same second come later`);
    },
  },
  {
    name: 'Role of ECS',
    concerns: usesTasks,
    run: (patient) => role(patient, 'AWSServiceRoleForECS', 'ecs', fails),
  },
  {
    name: 'Role of load balancers',
    concerns: hasServices,
    run: (patient) =>
      role(
        patient,
        'AWSServiceRoleForElasticLoadBalancing',
        'elasticloadbalancing',
        servicesOf(patient.stage)!.domain ? fails : warning,
      ),
  },
  {
    name: 'Role of auto scaling',
    concerns: hasServices,
    run: (patient) =>
      role(patient, 'AWSServiceRoleForApplicationAutoScaling_ECSService', 'ecs.application-autoscaling', warning),
  },
  {
    name: 'ECS gateways',
    concerns: (stage) => hasServices(stage) && !servicesOf(stage)!.domain,
    async run(patient) {
      const { clients, region } = patient;
      const mend = "give `services` a domain, or switch it off: services: { kind: 'off' }";
      if (!(await knowsType(patient, 'AWS::ECS::Gateway'))) {
        return fails(`CloudFormation in ${region} does not know AWS::ECS::Gateway`, mend);
      }
      try {
        await read('ecs:ListGateways', () => clients.ecs.send(new ListGatewaysCommand({ maxResults: 1 })));
      } catch (error) {
        if (isMissingHere(error)) return fails(`ECS in ${region} has no gateways`, mend);
        throw error;
      }
      return ok(`ECS in ${region} has gateways`);
    },
  },
  {
    name: 'MicroVMs',
    concerns: isMicrovm,
    async run(patient) {
      const { stage, clients, region, partition } = patient;
      const { baseImageVersion } = stage.sandbox as Extract<StageFile['sandbox'], { kind: 'microvm' }>;
      const mend = "choose a Region with Lambda MicroVMs, or sandbox: { kind: 'fargate' }";
      if (!(await knowsType(patient, 'AWS::Lambda::MicrovmImage'))) {
        return fails(`CloudFormation in ${region} does not know AWS::Lambda::MicrovmImage`, mend);
      }
      const imageIdentifier = `arn:${partition}:lambda:${region}:aws:microvm-image:al2023-1`;
      let versions: string[];
      try {
        const found = await read(
          'lambda:ListManagedMicrovmImageVersions',
          () => clients.microvms.send(new ListManagedMicrovmImageVersionsCommand({ imageIdentifier })),
          ['ResourceNotFoundException'],
        );
        if (!found) return fails(`Lambda in ${region} has no base image al2023-1`, mend);
        versions = found.items!.map(({ imageVersion }) => imageVersion!);
      } catch (error) {
        if (isMissingHere(error)) return fails(`Lambda in ${region} has no MicroVMs`, mend);
        throw error;
      }
      if (versions.includes(baseImageVersion))
        return ok(`Lambda in ${region} has MicroVMs and version ${baseImageVersion} of their base image`);
      return fails(
        `the base image has the versions ${versions.join(', ')}, not ${baseImageVersion}`,
        'set sandbox.baseImageVersion to one of them',
      );
    },
  },
  {
    name: 'Starts of MicroVMs',
    concerns: isMicrovm,
    async run({ stage, clients }) {
      const { launchesPerSecond, memoryMb } = stage.sandbox as Extract<StageFile['sandbox'], { kind: 'microvm' }>;
      const [rate, memory] = [await quotaOf(clients, QUOTAS.microvmRate), await quotaOf(clients, QUOTAS.microvmMemory)];
      const atOnce = Math.floor((memory * 1024) / memoryMb);
      const text = `${rate} starts a second, ${atOnce} MicroVMs at once in ${memory} GB`;
      // The build of the image takes a place beside the first one.
      if (atOnce < 2) return fails(text, raise(QUOTAS.microvmMemory));
      if (rate < launchesPerSecond)
        return warning(
          `${text}: sandbox.launchesPerSecond is ${launchesPerSecond}`,
          `${raise(QUOTAS.microvmRate)}; or set it to ${rate}`,
        );
      return ok(text);
    },
  },
  {
    name: 'CloudFront',
    concerns: ({ web }) => web.kind !== 'off',
    async run({ clients, stack }) {
      if (isStanding(await stack('web'))) return ok('the stack web has its distribution');
      const found = await read('cloudfront:ListDistributions', () =>
        clients.cloudFront.send(new ListDistributionsCommand({ MaxItems: 1 })),
      );
      if ((found!.DistributionList!.Items ?? []).length > 0)
        return ok('the account has distributions, so AWS has verified it');
      return unknown(
        'the account has no distribution, and no request tells whether AWS has verified it: if not, the stack web fails, and the API stands',
        "deploy with web: { kind: 'off' } first, or see docs/first-account.md for a test that creates a distribution",
      );
    },
  },
  {
    name: 'Certificate of the API',
    concerns: ({ domain }) => domain !== undefined,
    run: (patient) => certificateIn(patient, patient.stage.domain!.certificateArn, patient.stage.domain!.name),
  },
  {
    name: 'Certificate of CloudFront',
    concerns: (stage) => webDomain(stage) !== undefined,
    async run({ stage, clients }) {
      const { name, certificateArn } = webDomain(stage)!;
      const answer = await read(
        'acm:DescribeCertificate',
        () => clients.acmOfCloudFront.send(new DescribeCertificateCommand({ CertificateArn: certificateArn })),
        ['ResourceNotFoundException'],
      );
      return certificate(answer?.Certificate, certificateArn, name);
    },
  },
  {
    name: 'Certificate of services',
    concerns: (stage) => servicesOf(stage)?.domain !== undefined,
    run(patient) {
      const { name, certificateArn } = servicesOf(patient.stage)!.domain!;
      return certificateIn(patient, certificateArn, `*.${name}`);
    },
  },
  {
    name: 'Hosted zone of services',
    concerns: (stage) => servicesOf(stage)?.domain?.hostedZoneId !== undefined,
    async run({ stage, clients }) {
      const { name, hostedZoneId } = servicesOf(stage)!.domain!;
      const found = await read(
        'route53:GetHostedZone',
        () => clients.route53.send(new GetHostedZoneCommand({ Id: hostedZoneId })),
        ['NoSuchHostedZone'],
      );
      const mend = `name the public zone of ${name} in services.domain.hostedZoneId, or leave it out and create the record yourself`;
      if (!found) return fails(`there is no hosted zone ${hostedZoneId}`, mend);
      const zone = found.HostedZone!.Name!.replace(/\.$/, '');
      if (name !== zone && !name.endsWith(`.${zone}`))
        return fails(`the zone is of ${zone}, which does not contain ${name}`, mend);
      if (found.HostedZone!.Config?.PrivateZone)
        return fails(`the zone of ${zone} is private: browsers do not see it`, mend);
      return ok(`the zone is of ${zone}`);
    },
  },
  {
    name: 'Key',
    concerns: ({ keyArn }) => keyArn !== undefined,
    async run({ stage, clients, region }) {
      const keyArn = stage.keyArn!;
      if (regionOfArn(keyArn) !== region)
        return fails(`the key is in ${regionOfArn(keyArn)}, the stage in ${region}`, `create one in ${region}`);
      const found = await read('kms:DescribeKey', () => clients.kms.send(new DescribeKeyCommand({ KeyId: keyArn })), [
        'NotFoundException',
      ]);
      if (!found) return fails(`there is no key ${keyArn}`, 'name an existing key in the stage file');
      const { KeyState, KeySpec } = found.KeyMetadata!;
      if (KeyState !== 'Enabled')
        return fails(`the key is ${KeyState}`, 'enable it (aws kms enable-key), or cancel its deletion');
      if (KeySpec !== 'SYMMETRIC_DEFAULT')
        return fails(`the key is ${KeySpec}`, 'create a symmetric key: aws kms create-key');
      return ok('enabled and symmetric; whether its policy lets roles use it shows at the deployment only');
    },
  },
  {
    name: 'Sender of mail',
    concerns: ({ mailFrom }) => mailFrom !== undefined,
    async run({ stage, clients, region }) {
      const address = stage.mailFrom!;
      const labels = address.split('@')[1]!.split('.');
      const domains = labels.slice(0, -1).map((_, i) => labels.slice(i).join('.'));
      for (const identity of [address, ...domains]) {
        const found = await read(
          'ses:GetEmailIdentity',
          () => clients.ses.send(new GetEmailIdentityCommand({ EmailIdentity: identity })),
          ['NotFoundException'],
        );
        if (!found) continue;
        if (!found.VerifiedForSendingStatus) {
          return warning(`${identity} is not verified: invitations are not sent`, 'finish its verification in SES');
        }
        const account = await read('ses:GetAccount', () => clients.ses.send(new GetSesAccountCommand()));
        if (account!.ProductionAccessEnabled) return ok(`${identity} is verified`);
        return warning(
          `${identity} is verified, but SES in ${region} is in its sandbox: it sends to verified addresses only`,
          'ask for production access in SES, which takes a day',
        );
      }
      return warning(
        `SES in ${region} knows neither ${address} nor its domain: invitations are not sent`,
        `aws sesv2 create-email-identity --email-identity ${address}`,
      );
    },
  },
  {
    name: 'Topic of alarms',
    concerns: ({ alarms }) => alarms?.topicArn !== undefined,
    async run({ stage, clients, region }) {
      const { topicArn, dailyUsd } = stage.alarms!;
      if (regionOfArn(topicArn!) !== region)
        return fails(`the topic is in ${regionOfArn(topicArn!)}, the stage in ${region}`, `create one in ${region}`);
      const found = await read(
        'sns:GetTopicAttributes',
        () => clients.sns.send(new GetTopicAttributesCommand({ TopicArn: topicArn })),
        ['NotFound', 'NotFoundException'],
      );
      if (!found) return fails(`there is no topic ${topicArn}`, 'name an existing topic in the stage file');
      const services = ['cloudwatch', 'events', ...(dailyUsd === undefined ? [] : ['budgets'])];
      const refused = services.filter((service) => !mayPublish(found.Attributes?.Policy, `${service}.amazonaws.com`));
      if (refused.length === 0) return ok(`its policy lets ${services.join(', ')} publish`);
      return fails(
        `its policy does not let ${refused.join(', ')} publish: their messages are lost`,
        'allow these services sns:Publish in the policy of the topic',
      );
    },
  },
  ...(['stripe', 'operator', 'a2a', 'oidc', 'telemetry'] as const).map(secretCheck),
];

/** Whether a topic's policy allows a service to publish, as far as that shows without its conditions. */
function mayPublish(policy: string | undefined, service: string): boolean {
  const statements: Statement[] = [JSON.parse(policy ?? '{}').Statement ?? []].flat();
  const isOf = ({ Principal }: Statement) => {
    if (typeof Principal === 'string') return Principal === '*';
    if ([Principal?.Service ?? []].flat().includes(service)) return true;
    // SNS's own policy admits the account, and CloudWatch acts as the account.
    return service === 'cloudwatch.amazonaws.com' && Principal?.AWS === '*';
  };
  const publishes = ({ Action }: Statement) => [Action].flat().some((action) => /^sns:(publish|\*)$/i.test(action));
  return statements.some((statement) => statement.Effect === 'Allow' && isOf(statement) && publishes(statement));
}

interface Statement {
  readonly Effect: string;
  readonly Principal?: string | { readonly Service?: string | string[]; readonly AWS?: string };
  readonly Action: string | string[];
}

/** Reads a stack of the stage. */
export async function readStack(
  { cloudFormation }: Clients,
  stage: StageFile,
  name: string,
): Promise<Stack | undefined> {
  const StackName = `${platformNameOf(stage)}-${name}`;
  const found = await read(
    'cloudformation:DescribeStacks',
    () => cloudFormation.send(new DescribeStacksCommand({ StackName })),
    // CloudFormation has no error of its own for a stack that does not exist.
    ['ValidationError'],
  );
  return found?.Stacks?.[0];
}
