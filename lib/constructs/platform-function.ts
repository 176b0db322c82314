import { Aws, Duration, Fn, RemovalPolicy } from 'aws-cdk-lib';
import { Effect, PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import {
  Architecture,
  Code,
  FilterCriteria,
  FilterRule,
  type FunctionProps,
  Function as LambdaFunction,
  RecursiveLoop,
  Runtime,
  StartingPosition,
  Tracing,
} from 'aws-cdk-lib/aws-lambda';
import { SqsEventSource } from 'aws-cdk-lib/aws-lambda-event-sources';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import type { Transports } from '#core/base/transports.ts';
import { PROJECTIONS, type TableName } from '#core/ports/table-rules.ts';
import { SIGNING_PREFIX } from '#core/ports/vault.ts';
import {
  bucketNameOf,
  dataKeyAliasOf,
  functionNameOf,
  managedConnectorOf,
  metricNamespaceOf,
  microvmImageArnOf,
  type Stage,
  secretPrefixOf,
  serviceNamesOf,
  sumNamesOf,
  tablePrefixOf,
  timerNamesOf,
} from '../config.ts';
import type { BlobAccess, BlobFolder, DataKeysUse, SecretsUse, TableAccess } from '../functions.ts';
import { removalPolicyOf } from '../removal.ts';
import { acknowledgeWildcard } from './acknowledge.ts';
import { functionNetworkOf } from './tenant-vpc.ts';

export interface PlatformFunctionProps {
  readonly stage: Stage;
  /** Folder with `index.mjs`; Lambda calls its export `handler`. */
  readonly bundle: string;
  /** Patterns of files to exclude from the deployment. @default - none */
  readonly exclude?: string[];
  /** Handler that Lambda calls. @default index.handler */
  readonly handler?: string;
  readonly memoryMb: number;
  readonly timeoutSeconds: number;
  /** Environment variables in addition to the defaults and those that the `use...` methods add. */
  readonly environment: Readonly<Record<string, string>>;
  /** Reserved concurrency, which is also its maximum. @default - none, limited only by the account */
  readonly reserved?: number | undefined;
  /**
   * Whether it invokes itself on purpose: otherwise Lambda stops such a chain after about 16 invocations (Lambda
   * Developer Guide, "recursive loop detection").
   *
   * @default false
   */
  readonly callsItself?: boolean | undefined;
  /**
   * Network that the function runs in. It can then reach only this network.
   *
   * @default - the stage's `functionVpc`; without one, the function has no network of its own and reaches the internet
   */
  readonly network?: Pick<FunctionProps, 'vpc' | 'vpcSubnets' | 'securityGroups'>;
}

/**
 * Actions on EC2 of the managed policy AWSLambdaVPCAccessExecutionRole:
 * docs.aws.amazon.com/aws-managed-policy/latest/reference/AWSLambdaVPCAccessExecutionRole.html.
 */
const NETWORK_ACTIONS = [
  'AssignPrivateIpAddresses',
  'CreateNetworkInterface',
  'DeleteNetworkInterface',
  'DescribeNetworkInterfaces',
  'DescribeSubnets',
  'UnassignPrivateIpAddresses',
];

/**
 * A Lambda function with the platform's defaults:
 *
 * - name `platform-<stage>-<id>`, Node 24 on arm64, handler `index.handler`
 * - a log group `/aws/lambda/<name>` with the stage's retention, retained if the stage keeps its data
 * - its own role, which may only write these logs and X-Ray traces; active tracing
 * - environment: `POWERTOOLS_SERVICE_NAME` (the id), `POWERTOOLS_METRICS_NAMESPACE`, `PLATFORM_LOG_LEVEL`
 *
 * Each `use...` method adds a setting together with the permissions that it needs.
 */
export class PlatformFunction extends Construct {
  readonly lambda: LambdaFunction;
  readonly #stage: Stage;
  #usesKey = false;

  constructor(scope: Construct, id: string, props: PlatformFunctionProps) {
    super(scope, id);
    const { stage } = props;
    this.#stage = stage;
    const network = props.network ?? functionNetworkOf(this, stage);
    const functionName = functionNameOf(stage, id);
    const logGroup = new LogGroup(this, 'Logs', {
      logGroupName: `/aws/lambda/${functionName}`,
      retention: stage.logRetentionDays,
      removalPolicy: removalPolicyOf(stage),
    });
    // Replaces Lambda's managed policy, which lets a function write to every log group.
    const role = new Role(this, 'Role', { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
    logGroup.grantWrite(role);
    this.lambda = new LambdaFunction(this, 'Function', {
      functionName,
      runtime: Runtime.NODEJS_24_X,
      architecture: Architecture.ARM_64,
      code: Code.fromAsset(props.bundle, { exclude: props.exclude }),
      handler: props.handler ?? 'index.handler',
      memorySize: props.memoryMb,
      timeout: Duration.seconds(props.timeoutSeconds),
      reservedConcurrentExecutions: props.reserved,
      recursiveLoop: props.callsItself ? RecursiveLoop.ALLOW : undefined,
      role,
      logGroup,
      tracing: Tracing.ACTIVE,
      // Running calls finish with their version. A version is deleted with its function, or with the deployment that
      // failed.
      currentVersionOptions: { removalPolicy: RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE },
      ...network,
      environment: {
        POWERTOOLS_SERVICE_NAME: id,
        POWERTOOLS_METRICS_NAMESPACE: metricNamespaceOf(stage),
        PLATFORM_LOG_LEVEL: stage.logLevel,
        ...props.environment,
      },
    });
    if (network) {
      // Lambda attaches the function to the network with these permissions, before the function runs. The function's
      // own code may not use them.
      const actions = NETWORK_ACTIONS.map((action) => `ec2:${action}`);
      this.lambda.addToRolePolicy(new PolicyStatement({ actions, resources: ['*'] }));
      const own = `arn:\${AWS::Partition}:lambda:\${AWS::Region}:\${AWS::AccountId}:function:${functionName}`;
      this.lambda.addToRolePolicy(
        new PolicyStatement({
          effect: Effect.DENY,
          actions: [...actions, 'ec2:DetachNetworkInterface'],
          resources: ['*'],
          conditions: { ArnEquals: { 'lambda:SourceFunctionArn': Fn.sub(own) } },
        }),
      );
    }
    acknowledgeWildcard(this, '*', 'The two actions of X-Ray have no narrower resource.');
  }

  useTable(name: TableName, { items, query = [] }: TableAccess): void {
    this.#useKey();
    const prefix = tablePrefixOf(this.#stage);
    this.lambda.addEnvironment('PLATFORM_TABLE_PREFIX', prefix);
    const arn = `arn:\${AWS::Partition}:dynamodb:\${AWS::Region}:\${AWS::AccountId}:table/${prefix}${name}`;
    this.#allow(
      items.map((action) => `dynamodb:${action}`),
      [arn],
    );
    const readsByKeys = PROJECTIONS[name] === 'KEYS_ONLY' && query.some((index) => index !== 'table');
    if (readsByKeys && !items.includes('BatchGetItem')) this.#allow(['dynamodb:BatchGetItem'], [arn]);
    this.#allow(
      ['dynamodb:Query'],
      query.map((index) => (index === 'table' ? arn : `${arn}/index/${index}`)),
    );
  }

  useBlobs({ read, write = [], remove = [] }: BlobAccess): void {
    this.#useKey();
    const bucket = bucketNameOf(this.#stage);
    this.lambda.addEnvironment('PLATFORM_BUCKET', Fn.sub(bucket));
    const arn = `arn:\${AWS::Partition}:s3:::${bucket}`;
    const inFolders = (folders: readonly BlobFolder[]) => folders.map((folder) => `${arn}/${folder}/*`);
    const reason = 'Blobs of one kind: only their folder is known before run time.';
    // Without this permission, S3 responds 403 for a missing object.
    if (read.length > 0) this.#allow(['s3:ListBucket'], [arn]);
    this.#allow(['s3:GetObject'], inFolders(read), reason);
    this.#allow(['s3:PutObject'], inFolders(write), reason);
    this.#allow(['s3:DeleteObject'], inFolders(remove), reason);
  }

  /** Grants the use of vaults in the place that the stage names, apart from its tables. */
  useSecrets(access: SecretsUse): void {
    const { secrets, keyArn } = this.#stage;
    const prefix = secretPrefixOf(this.#stage);
    this.lambda.addEnvironment('PLATFORM_SECRET_PREFIX', prefix);
    if (secrets !== 'secrets-manager') {
      this.lambda.addEnvironment('PLATFORM_SECRETS', secrets);
      this.#useDataKeysOf(
        `${prefix}/secrets`,
        ['Decrypt', ...(access === 'write' ? ['GenerateDataKey'] : [])],
        access === 'sign' ? `${SIGNING_PREFIX}*` : undefined,
      );
    }
    if (secrets === 'envelope') return;
    this.#useKey();
    if (access === 'write' && keyArn) this.lambda.addEnvironment('PLATFORM_SECRET_KEY', keyArn);
    const actions = ['GetSecretValue', ...(access === 'write' ? ['CreateSecret', 'PutSecretValue'] : [])];
    this.#allow(
      actions.map((action) => `secretsmanager:${action}`),
      [
        `arn:\${AWS::Partition}:secretsmanager:\${AWS::Region}:\${AWS::AccountId}:secret:${prefix}/${access === 'sign' ? SIGNING_PREFIX : ''}*`,
      ],
      'The vaults of this stage, one per workspace: only their prefix is known before run time.',
    );
  }

  /** Grants opening the data keys of this stage's workspaces, or also making them. */
  useDataKeys(access: DataKeysUse): void {
    const prefix = secretPrefixOf(this.#stage);
    this.lambda.addEnvironment('PLATFORM_SECRET_PREFIX', prefix);
    this.#useDataKeysOf(prefix, access === 'both' ? ['GenerateDataKey', 'Decrypt'] : ['Decrypt']);
  }

  /**
   * Grants actions on one kind of data keys: of what the KMS key encrypted, only these have this `vault` in their
   * encryption context, beside their workspace (`aws/secrets/kms-data-keys.ts`).
   *
   * @param workspaces Pattern of the workspaces. @default - all
   */
  #useDataKeysOf(vault: string, actions: readonly string[], workspaces?: string): void {
    const { keyArn } = this.#stage;
    const alias = dataKeyAliasOf(this.#stage);
    this.lambda.addEnvironment('PLATFORM_DATA_KEY', keyArn ?? alias);
    const anyKey = `arn:\${AWS::Partition}:kms:\${AWS::Region}:\${AWS::AccountId}:key/*`;
    this.lambda.addToRolePolicy(
      new PolicyStatement({
        actions: actions.map((action) => `kms:${action}`),
        resources: [keyArn ?? substituted(anyKey)],
        conditions: {
          StringEquals: {
            'kms:EncryptionContext:vault': vault,
            ...(keyArn === undefined && { 'kms:RequestAlias': alias }),
          },
          ...(workspaces === undefined
            ? { Null: { 'kms:EncryptionContext:workspace': 'false' } }
            : { StringLike: { 'kms:EncryptionContext:workspace': workspaces } }),
        },
      }),
    );
    if (keyArn === undefined)
      acknowledgeWildcard(this, anyKey, 'KMS chooses the id of a key; the alias names the one.');
  }

  /**
   * Grants access to `PLATFORM_MODELS` of the stage's settings: an S3 object needs a permission, a web address none.
   */
  useModels(place: string): void {
    const object = place.replace(/^s3:\/\//, '');
    if (object !== place) this.#allow(['s3:GetObject'], [`arn:\${AWS::Partition}:s3:::${object}`]);
  }

  /** Grants access to the Amazon Bedrock models in `PLATFORM_TRANSPORTS` of the stage's settings. */
  useTransports({ anthropic }: Transports): void {
    if (anthropic === undefined) return;
    const actions = ['bedrock:InvokeModel', 'bedrock:InvokeModelWithResponseStream'];
    const arns = new Set(Object.values(anthropic.models).flatMap((model) => bedrockArns(anthropic.region, model)));
    const isWide = (arn: string) => arn.includes('*');
    this.#allow(
      actions,
      [...arns].filter((arn) => !isWide(arn)),
    );
    this.#allow(
      actions,
      [...arns].filter(isWide),
      'Only AWS knows to which Regions an inference profile sends requests.',
    );
  }

  useMail(from: string): void {
    this.lambda.addEnvironment('PLATFORM_MAIL_FROM', from);
    const prefix = `arn:\${AWS::Partition}:ses:\${AWS::Region}:\${AWS::AccountId}:identity/`;
    // Either the address or its domain is verified.
    this.#allow(['ses:SendEmail'], [prefix + from, prefix + from.split('@')[1]]);
  }

  /** Grants access to the secret with Stripe's key and signing secret, which the operator has created. */
  usePayments(secretName: string): void {
    this.#readSecret('PLATFORM_STRIPE_SECRET', secretName);
  }

  /** Configures the stage's OpenID provider, with the secret that the operator has created. */
  useOidc({ issuer, clientId, domains, secretName }: NonNullable<Stage['oidc']>): void {
    this.lambda.addEnvironment('PLATFORM_OIDC_ISSUER', issuer);
    this.lambda.addEnvironment('PLATFORM_OIDC_CLIENT_ID', clientId);
    if (domains.length > 0) this.lambda.addEnvironment('PLATFORM_OIDC_DOMAINS', domains.join(','));
    this.#readSecret('PLATFORM_OIDC_SECRET', secretName);
  }

  useOperatorKey(secretName: string): void {
    this.#readSecret('PLATFORM_OPERATOR_SECRET', secretName);
  }

  /** Grants access to the secret with the key that signs cards, which the operator has created. */
  useCardKey(secretName: string): void {
    this.#readSecret('PLATFORM_A2A_SECRET', secretName);
  }

  /** Configures the operator's collector. Only a function that sends may read the secret with the headers. */
  useTelemetry({ secretName, ...collector }: NonNullable<Stage['telemetry']>, use: 'note' | 'send'): void {
    const settings = use === 'send' ? { ...collector, secretName } : collector;
    this.lambda.addEnvironment('PLATFORM_OPERATOR_TELEMETRY', JSON.stringify(settings));
    if (use === 'send' && secretName !== undefined) this.#allowSecret(secretName);
  }

  /** Grants read access to a secret that the operator has created, whose name is in the variable. */
  #readSecret(variable: string, secretName: string): void {
    this.lambda.addEnvironment(variable, secretName);
    this.#allowSecret(secretName);
  }

  #allowSecret(secretName: string): void {
    const arn = `arn:\${AWS::Partition}:secretsmanager:\${AWS::Region}:\${AWS::AccountId}:secret:${secretName}-??????`;
    this.#allow(['secretsmanager:GetSecretValue'], [arn], 'Secrets Manager adds six characters to the name.');
  }

  /** Grants access to sandboxes. A function that opens sandboxes also signs links to their blobs. */
  useSandbox(sandbox: Stage['sandbox'], use: 'open' | 'install' | 'know'): void {
    const { kind } = sandbox;
    this.lambda.addEnvironment('PLATFORM_HOSTED_SANDBOX', kind);
    if (use === 'know' || kind === 'none') return;
    // Only runs have short programs.
    const lambda = use === 'open' ? sandbox.lambda : undefined;
    if (kind === 'fargate') {
      this.lambda.addEnvironment('PLATFORM_SANDBOX_REUSE', sandbox.reuse);
      this.lambda.addEnvironment('PLATFORM_SANDBOX_SPOT', sandbox.spot);
      const programs = lambda ? ['programs'] : [];
      this.useFunctions(['sandbox-dispatch', 'pool-keeper', ...programs]);
      this.useBlobs({ read: ['bundles', 'layers', 'transfers'], write: ['transfers'] });
    } else {
      this.lambda.addEnvironment('PLATFORM_MICROVM_RATE', String(sandbox.launchesPerSecond));
      this.useMicrovms(['RunMicrovm', 'GetMicrovm', 'CreateMicrovmAuthToken', 'TerminateMicrovm']);
      this.#allow(
        ['lambda:PassNetworkConnector'],
        [managedConnectorOf('INTERNET_EGRESS'), managedConnectorOf('HTTP_INGRESS')],
      );
      if (lambda) {
        this.useFunctions(['programs']);
        this.useBlobs({ read: ['bundles', 'layers', 'transfers'], write: ['transfers'] });
      } else this.useBlobs({ read: ['bundles', 'layers'] });
    }
    if (lambda) this.lambda.addEnvironment('PLATFORM_PROGRAM_MEMORY_MB', String(lambda.memoryMb));
  }

  /** IAM grants actions on a MicroVM through its image. */
  useMicrovms(actions: readonly string[]): void {
    const image = microvmImageArnOf(this.#stage);
    this.lambda.addEnvironment('PLATFORM_MICROVM_IMAGE', Fn.sub(image));
    const isListing = (action: string) => action === 'ListMicrovms';
    this.#allow(
      actions.filter((action) => !isListing(action)).map((action) => `lambda:${action}`),
      [image, `${image}:*`],
      'The versions of the one image.',
    );
    // The action cannot be restricted to resources; the constructor acknowledged the wildcard.
    if (actions.some(isListing)) this.#allow(['lambda:ListMicrovms'], ['*']);
  }

  useFunctions(names: readonly string[]): void {
    this.lambda.addEnvironment('PLATFORM_FUNCTION_PREFIX', functionNameOf(this.#stage, ''));
    const prefix = `arn:\${AWS::Partition}:lambda:\${AWS::Region}:\${AWS::AccountId}:function:`;
    this.#allow(
      ['lambda:InvokeFunction'],
      names.map((name) => prefix + functionNameOf(this.#stage, name)),
    );
  }

  /** Grants reading the logs of services. */
  useServiceLogs(): void {
    const prefix = serviceNamesOf(this.#stage).logGroupPrefix;
    this.lambda.addEnvironment('PLATFORM_SERVICES_LOGS', JSON.stringify({ log_group_prefix: prefix }));
    this.#allow(
      ['logs:FilterLogEvents'],
      [`arn:\${AWS::Partition}:logs:\${AWS::Region}:\${AWS::AccountId}:log-group:${prefix}*`],
      'The logs of the services of this stage: only their prefix is known before run time.',
    );
  }

  /** Grants listing and deleting every version of every blob. */
  emptyBlobs(): void {
    const bucket = bucketNameOf(this.#stage);
    this.lambda.addEnvironment('PLATFORM_BUCKET', Fn.sub(bucket));
    const arn = `arn:\${AWS::Partition}:s3:::${bucket}`;
    this.#allow(['s3:ListBucketVersions', 's3:GetBucketTagging'], [arn]);
    this.#allow(['s3:DeleteObject', 's3:DeleteObjectVersion'], [`${arn}/*`], 'Every blob of this stage.');
  }

  /** Grants listing and deleting every vault. */
  deleteSecrets(): void {
    const prefix = secretPrefixOf(this.#stage);
    this.lambda.addEnvironment('PLATFORM_SECRET_PREFIX', prefix);
    this.#allow(['secretsmanager:ListSecrets'], ['*'], 'Listing has no narrower resource.');
    this.#allow(
      ['secretsmanager:DeleteSecret'],
      [`arn:\${AWS::Partition}:secretsmanager:\${AWS::Region}:\${AWS::AccountId}:secret:${prefix}/*`],
      'The vaults of this stage, one per workspace: only their prefix is known before run time.',
    );
  }

  /** Grants creating and deleting layers of the stage's functions. */
  publishLayers(): void {
    const layers = `arn:\${AWS::Partition}:lambda:\${AWS::Region}:\${AWS::AccountId}:layer:${functionNameOf(this.#stage, '*')}`;
    this.#allow(['lambda:PublishLayerVersion'], [layers], 'The layers of this stage, one for each function.');
    this.#allow(['lambda:DeleteLayerVersion'], [`${layers}:*`], 'Their versions, which Lambda numbers.');
  }

  useTimers(access: 'set' | 'list'): void {
    const { group, queue, deadQueue, role } = timerNamesOf(this.#stage);
    const roleArn = `arn:\${AWS::Partition}:iam::\${AWS::AccountId}:role${this.#stage.rolePath}${role}`;
    const queueArn = (name: string) => `arn:\${AWS::Partition}:sqs:\${AWS::Region}:\${AWS::AccountId}:${name}`;
    this.lambda.addEnvironment('PLATFORM_TIMER_GROUP', group);
    this.lambda.addEnvironment('PLATFORM_TIMER_QUEUE_ARN', Fn.sub(queueArn(queue)));
    this.lambda.addEnvironment('PLATFORM_TIMER_DEAD_QUEUE_ARN', Fn.sub(queueArn(deadQueue)));
    this.lambda.addEnvironment('PLATFORM_TIMER_ROLE_ARN', Fn.sub(roleArn));
    this.#allow(
      ['scheduler:CreateSchedule', 'scheduler:DeleteSchedule'],
      [`arn:\${AWS::Partition}:scheduler:\${AWS::Region}:\${AWS::AccountId}:schedule/${group}/*`],
      'The timers of this stage: only their group is known before run time.',
    );
    this.lambda.addToRolePolicy(
      new PolicyStatement({
        actions: ['iam:PassRole'],
        resources: [Fn.sub(roleArn)],
        conditions: { StringEquals: { 'iam:PassedToService': 'scheduler.amazonaws.com' } },
      }),
    );
    // The action cannot be restricted to resources; the constructor acknowledged the wildcard.
    if (access === 'list') this.#allow(['scheduler:ListSchedules'], ['*']);
  }

  /** Makes the queue of {@link useTimers} trigger the function. */
  readTimerQueue({ batchSize, maxConcurrency }: { readonly batchSize: number; readonly maxConcurrency: number }): void {
    const { queue } = timerNamesOf(this.#stage);
    const arn = Fn.sub(`arn:\${AWS::Partition}:sqs:\${AWS::Region}:\${AWS::AccountId}:${queue}`);
    const source = Queue.fromQueueArn(this, 'Timers', arn);
    this.useKeyForQueues();
    this.lambda.addEventSource(
      new SqsEventSource(source, { batchSize, maxConcurrency, reportBatchItemFailures: true }),
    );
  }

  /**
   * Makes ends of runs in the stream of the table `runs` trigger the function, which may send records to the dead-letter
   * queue. One batch of a shard follows the other, and fails until it succeeds: the function puts records aside itself.
   */
  readRunStream({ batchSize, windowSeconds }: { readonly batchSize: number; readonly windowSeconds: number }): void {
    const { deadQueue, streamExport } = sumNamesOf(this.#stage);
    const queueArn = Fn.sub(`arn:\${AWS::Partition}:sqs:\${AWS::Region}:\${AWS::AccountId}:${deadQueue}`);
    const eventSourceArn = Fn.importValue(streamExport);
    this.lambda.addEnvironment('PLATFORM_SUMS_DEAD_QUEUE', deadQueue);
    this.lambda.addToRolePolicy(
      new PolicyStatement({ actions: ['sqs:GetQueueUrl', 'sqs:SendMessage'], resources: [queueArn] }),
    );
    this.useKeyForQueues();
    const table = `arn:\${AWS::Partition}:dynamodb:\${AWS::Region}:\${AWS::AccountId}:table/${tablePrefixOf(this.#stage)}runs`;
    this.#allow(
      ['dynamodb:DescribeStream', 'dynamodb:GetRecords', 'dynamodb:GetShardIterator'],
      [`${table}/stream/*`],
      'The stream of a table has the time of its creation in its name, and a restored table has another one.',
    );
    // The action cannot be restricted to resources; the constructor acknowledged the wildcard.
    this.#allow(['dynamodb:ListStreams'], ['*']);
    this.lambda.addEventSourceMapping('Runs', {
      eventSourceArn,
      // Records that were counted before, with another trigger, do not count again.
      startingPosition: StartingPosition.TRIM_HORIZON,
      batchSize,
      maxBatchingWindow: Duration.seconds(windowSeconds),
      parallelizationFactor: 1,
      // Only with a window does an event name its shard. Its state is not used.
      tumblingWindow: Duration.minutes(15),
      filters: [ENDED_RUNS],
      onFailure: { bind: () => ({ destination: queueArn }) },
    });
  }

  /** Grants the use of the operator's KMS key for messages of the stage's queues. */
  useKeyForQueues(): void {
    const { keyArn } = this.#stage;
    if (keyArn !== undefined) this.lambda.addToRolePolicy(queueKeyStatement(keyArn));
  }

  /** Grants the use of the operator's KMS key through these services, which act with the function's own permissions. */
  #useKey(): void {
    const { keyArn } = this.#stage;
    if (keyArn === undefined || this.#usesKey) return;
    this.#usesKey = true;
    const services = ['dynamodb', 's3', 'secretsmanager'];
    this.lambda.addToRolePolicy(
      new PolicyStatement({
        actions: KEY_ACTIONS.map((action) => `kms:${action}`),
        resources: [keyArn],
        conditions: {
          StringEquals: { 'kms:ViaService': services.map((name) => `${name}.${Aws.REGION}.amazonaws.com`) },
        },
      }),
    );
  }

  /** Allows actions on ARNs in `Fn::Sub` notation. `reason` acknowledges a wildcard in them. */
  #allow(actions: string[], arns: string[], reason?: string): void {
    if (actions.length === 0 || arns.length === 0) return;
    this.lambda.addToRolePolicy(new PolicyStatement({ actions, resources: arns.map(substituted) }));
    if (reason) for (const arn of arns) acknowledgeWildcard(this, arn, reason);
  }
}

/**
 * Returns the resources of a request to a model on Bedrock: for an inference profile both the profile and its model in
 * every Region of the profile, else the model
 * (docs.aws.amazon.com/bedrock/latest/userguide/inference-profiles-prereq.html).
 */
function bedrockArns(region: string, model: string): string[] {
  const models = (where: string, name: string) => `arn:\${AWS::Partition}:bedrock:${where}::foundation-model/${name}`;
  if (model.startsWith('arn:')) return [model, models('*', 'anthropic.*')];
  const name = model.slice(model.indexOf('anthropic.'));
  if (name === model) return [models(region, name)];
  return [`arn:\${AWS::Partition}:bedrock:${region}:\${AWS::AccountId}:inference-profile/${model}`, models('*', name)];
}

/** The rule of `core/runs/usage/ended-run.ts`, as far as a filter can tell: the function checks it again. */
const ENDED_RUNS = FilterCriteria.filter({
  eventName: FilterRule.isEqual('MODIFY'),
  dynamodb: {
    NewImage: { duration_ms: { N: FilterRule.exists() } },
    OldImage: { duration_ms: { N: FilterRule.notExists() } },
  },
});

const substituted = (arn: string): string => (arn.includes('${') ? Fn.sub(arn) : arn);

/**
 * KMS permissions that DynamoDB requires of a table's users:
 * docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html.
 */
const KEY_ACTIONS = [
  'Decrypt',
  'DescribeKey',
  'Encrypt',
  'GenerateDataKey',
  'GenerateDataKeyWithoutPlaintext',
  'ReEncryptFrom',
  'ReEncryptTo',
];

/** Allows writing and reading messages of encrypted queues, but no other use of the key. */
export const queueKeyStatement = (keyArn: string): PolicyStatement =>
  new PolicyStatement({
    actions: ['kms:Decrypt', 'kms:GenerateDataKey'],
    resources: [keyArn],
    conditions: { StringEquals: { 'kms:ViaService': `sqs.${Aws.REGION}.amazonaws.com` } },
  });
