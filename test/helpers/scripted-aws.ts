import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { TEST_ACCOUNT, TEST_REGION } from './aws-account.ts';

/** What the scripted account has, for the requests of `npm run aws:doctor`. */
export interface AccountState {
  /** Values of its own, by quota code. */
  readonly quotas: Readonly<Record<string, number>>;
  /** AWS's defaults, by quota code. */
  readonly defaults: Readonly<Record<string, number>>;
  /** Executions that functions of the account have reserved. */
  readonly reserved: number;
  readonly stacks: Readonly<Record<string, { status: string; reason?: string; isProtected?: boolean }>>;
  readonly roles: readonly string[];
  readonly policies: readonly string[];
  /** Version of the bootstrap stack by its qualifier. */
  readonly bootstraps: Readonly<Record<string, number>>;
  readonly tables: readonly string[];
  readonly vpcs: number;
  readonly internetGateways: number;
  readonly elasticIps: number;
  /** Zone by subnet with a NAT gateway. */
  readonly natGateways: Readonly<Record<string, string>>;
  /** VPC by subnet. */
  readonly subnets: Readonly<Record<string, string>>;
  readonly zones: readonly string[];
  readonly distributions: number;
  readonly certificates: Readonly<Record<string, { status: string; names: string[] }>>;
  readonly hostedZones: Readonly<Record<string, { name: string; isPrivate?: boolean }>>;
  readonly keys: Readonly<Record<string, { state: string; spec: string }>>;
  /** Whether each identity of SES is verified. */
  readonly identities: Readonly<Record<string, boolean>>;
  readonly sendsToAll: boolean;
  readonly topics: Readonly<Record<string, object>>;
  /** Whether each secret is being deleted. */
  readonly secrets: Readonly<Record<string, boolean>>;
  /** Resource types that CloudFormation knows in the Region. */
  readonly types: readonly string[];
  readonly hasGateways: boolean;
  /** Versions of the base image of MicroVMs; `undefined` where Lambda has none. */
  readonly microvmVersions: readonly string[] | undefined;
  readonly logRole?: string;
}

/** Errors that a test injects, by action; `*` is any action. */
export type Faults = Readonly<Record<string, 'denied' | 'throttled' | 'dropped' | { code: string; status: number }>>;

type Protocol = 'json' | 'query' | 'ec2' | 'rest-json' | 'rest-xml';

/** A tree of members by their names on the wire. In XML, arrays become lists of the protocol's item element. */
type Tree = { readonly [name: string]: Tree | readonly Tree[] | string | number | boolean | undefined };
type Input = Readonly<Record<string, string | undefined>>;

class Refusal extends Error {
  readonly code: string;
  readonly status: number;

  constructor(code: string, status = 400) {
    super(`scripted: ${code}`);
    this.code = code;
    this.status = status;
  }
}

const QUERY = new Set(['sts', 'iam', 'cloudformation', 'sns']);
/** Prefixes of IAM actions that differ from the name by which requests are signed. */
const PREFIX: Readonly<Record<string, string>> = { email: 'ses' };

/** Paths of services that are called by path, with their actions and what the path names. */
const REST: readonly { service: string; path: RegExp; action: string; protocol: Protocol }[] = [
  { service: 'cloudfront', path: /^\/2020-05-31\/distribution$/, action: 'ListDistributions', protocol: 'rest-xml' },
  {
    service: 'route53',
    path: /^\/2013-04-01\/hostedzone\/(?<Id>[^/]+)$/,
    action: 'GetHostedZone',
    protocol: 'rest-xml',
  },
  {
    service: 'lambda',
    path: /^\/2016-08-19\/account-settings\/?$/,
    action: 'GetAccountSettings',
    protocol: 'rest-json',
  },
  {
    service: 'lambda',
    path: /\/managed-microvm-images\/(?<Id>[^/]+)\/versions$/,
    action: 'ListManagedMicrovmImageVersions',
    protocol: 'rest-json',
  },
  {
    service: 'ses',
    path: /^\/v2\/email\/identities\/(?<Id>[^/]+)$/,
    action: 'GetEmailIdentity',
    protocol: 'rest-json',
  },
  { service: 'ses', path: /^\/v2\/email\/account$/, action: 'GetAccount', protocol: 'rest-json' },
  { service: 'apigateway', path: /^\/account$/, action: 'GET', protocol: 'rest-json' },
];

interface Call {
  /** Right that the request needs, in the form of IAM policies. */
  readonly action: string;
  readonly protocol: Protocol;
  readonly region: string;
  readonly input: Input;
}

function callOf(method: string, url: URL, headers: IncomingHttpHeaders, body: string): Call {
  const [, region = '', signedFor = ''] =
    /Credential=[^/]+\/\d+\/([^/]+)\/([^/]+)\//.exec(String(headers.authorization)) ?? [];
  const service = PREFIX[signedFor] ?? signedFor;
  const target = headers['x-amz-target'];
  if (target !== undefined) {
    return {
      action: `${service}:${String(target).split('.').at(-1)}`,
      protocol: 'json',
      region,
      input: JSON.parse(body),
    };
  }
  if (service === 'ec2' || QUERY.has(service)) {
    const { Action, ...input } = Object.fromEntries(new URLSearchParams(body));
    return { action: `${service}:${Action}`, protocol: service === 'ec2' ? 'ec2' : 'query', region, input };
  }
  const rest = REST.find((each) => each.service === service && each.path.test(decodeURIComponent(url.pathname)));
  if (method !== 'GET' || rest === undefined) throw new Error(`not scripted: ${service} ${method} ${url.pathname}`);
  const input: Input = { ...rest.path.exec(decodeURIComponent(url.pathname))!.groups };
  return { action: `${service}:${rest.action}`, protocol: rest.protocol, region, input };
}

/** Answers of the account by action. */
function answersOf(state: AccountState): Readonly<Record<string, (input: Input) => Tree>> {
  const orRefuse = <Value>(value: Value | undefined, code: string, status?: number): Value => {
    if (value === undefined) throw new Refusal(code, status);
    return value;
  };
  const quota = ({ QuotaCode }: Input, values: Readonly<Record<string, number>>): Tree => ({
    Quota: { QuotaCode: QuotaCode!, Value: orRefuse(values[QuotaCode!], 'NoSuchResourceException') },
  });
  const listOf = (input: Input, name: string): string[] =>
    Object.entries(input).flatMap(([key, value]) => (key.startsWith(`${name}.`) ? value! : []));
  const named = (names: readonly string[], name: string, code: string): string =>
    orRefuse(
      names.find((each) => each === name),
      code,
    );
  return {
    'sts:GetCallerIdentity': () => ({
      Account: TEST_ACCOUNT,
      Arn: `arn:aws:sts::${TEST_ACCOUNT}:assumed-role/reader/me`,
      UserId: 'AROA',
    }),
    'servicequotas:GetServiceQuota': (input) => quota(input, state.quotas),
    'servicequotas:GetAWSDefaultServiceQuota': (input) => quota(input, state.defaults),
    'servicequotas:ListServiceQuotas': () => ({
      Quotas: [{ QuotaName: 'Invocations throttle limit in transactions per second', QuotaCode: 'L-0', Value: 500 }],
    }),
    'ssm:GetParameter': ({ Name }) => {
      const version = state.bootstraps[/^\/cdk-bootstrap\/(\w+)\/version$/.exec(Name!)![1]!];
      return { Parameter: { Name: Name!, Value: String(orRefuse(version, 'ParameterNotFound')) } };
    },
    'iam:GetRole': ({ RoleName }) => {
      const name = named(state.roles, RoleName!, 'NoSuchEntity');
      const Arn = `arn:aws:iam::${TEST_ACCOUNT}:role/${name}`;
      return { Role: { RoleName: name, Path: '/', RoleId: 'AROA', Arn, CreateDate: '2026-01-01T00:00:00Z' } };
    },
    'iam:GetPolicy': ({ PolicyArn }) => ({
      Policy: { PolicyName: named(state.policies, PolicyArn!.split('/').at(-1)!, 'NoSuchEntity'), Arn: PolicyArn! },
    }),
    'cloudformation:DescribeStacks': ({ StackName }) => {
      const { status, reason, isProtected = false } = orRefuse(state.stacks[StackName!], 'ValidationError');
      return {
        Stacks: [
          {
            StackName: StackName!,
            StackStatus: status,
            StackStatusReason: reason,
            EnableTerminationProtection: isProtected,
            CreationTime: '2026-01-01T00:00:00Z',
          },
        ],
      };
    },
    'cloudformation:DescribeType': ({ TypeName }) => ({
      TypeName: named(state.types, TypeName!, 'TypeNotFoundException'),
    }),
    'dynamodb:DescribeTable': ({ TableName }) => ({
      Table: { TableName: named(state.tables, TableName!, 'ResourceNotFoundException') },
    }),
    'ec2:DescribeVpcs': () => ({ vpcSet: Array.from({ length: state.vpcs }, (_, i) => ({ vpcId: `vpc-${i}` })) }),
    'ec2:DescribeInternetGateways': () => ({
      internetGatewaySet: Array.from({ length: state.internetGateways }, (_, i) => ({ internetGatewayId: `igw-${i}` })),
    }),
    'ec2:DescribeAddresses': () => ({
      addressesSet: Array.from({ length: state.elasticIps }, (_, i) => ({ publicIp: `203.0.113.${i}` })),
    }),
    'ec2:DescribeNatGateways': () => ({
      natGatewaySet: Object.keys(state.natGateways).map((subnetId) => ({ natGatewayId: `nat-${subnetId}`, subnetId })),
    }),
    'ec2:DescribeSubnets': (input) => ({
      subnetSet: listOf(input, 'SubnetId').map((subnetId) => {
        const zone = state.natGateways[subnetId];
        const vpc = zone === undefined ? orRefuse(state.subnets[subnetId], 'InvalidSubnetID.NotFound') : 'vpc-nat';
        return { subnetId, vpcId: vpc, availabilityZone: zone ?? state.zones[0]! };
      }),
    }),
    'ec2:DescribeAvailabilityZones': () => ({ availabilityZoneInfo: state.zones.map((zoneName) => ({ zoneName })) }),
    'cloudfront:ListDistributions': () => ({
      Marker: '',
      MaxItems: 1,
      IsTruncated: state.distributions > 1,
      Quantity: Math.min(1, state.distributions),
      Items:
        state.distributions === 0 ? undefined : { DistributionSummary: { Id: 'E1', DomainName: 'd1.cloudfront.net' } },
    }),
    'acm:DescribeCertificate': ({ CertificateArn }) => {
      const { status, names } = orRefuse(state.certificates[CertificateArn!], 'ResourceNotFoundException');
      return {
        Certificate: { Status: status, DomainName: names[0]!, SubjectAlternativeNames: names as unknown as Tree[] },
      };
    },
    'route53:GetHostedZone': ({ Id }) => {
      const { name, isPrivate = false } = orRefuse(state.hostedZones[Id!], 'NoSuchHostedZone', 404);
      return {
        HostedZone: {
          Id: `/hostedzone/${Id}`,
          Name: `${name}.`,
          CallerReference: 'x',
          Config: { PrivateZone: isPrivate },
        },
      };
    },
    'kms:DescribeKey': ({ KeyId }) => {
      const { state: KeyState, spec: KeySpec } = orRefuse(state.keys[KeyId!], 'NotFoundException');
      return { KeyMetadata: { KeyId: KeyId!, KeyState, KeySpec } };
    },
    'secretsmanager:DescribeSecret': ({ SecretId }) => {
      const isDeleted = orRefuse(state.secrets[SecretId!], 'ResourceNotFoundException');
      return { Name: SecretId!, ...(isDeleted && { DeletedDate: 1_790_000_000 }) };
    },
    'sns:GetTopicAttributes': ({ TopicArn }) => ({
      Attributes: {
        entry: { key: 'Policy', value: JSON.stringify(orRefuse(state.topics[TopicArn!], 'NotFound', 404)) },
      },
    }),
    'ses:GetEmailIdentity': ({ Id }) => ({
      VerifiedForSendingStatus: orRefuse(state.identities[Id!], 'NotFoundException', 404),
    }),
    'ses:GetAccount': () => ({ ProductionAccessEnabled: state.sendsToAll }),
    'apigateway:GET': () => ({ cloudwatchRoleArn: state.logRole }),
    'lambda:GetAccountSettings': () => {
      const max = state.quotas['L-B99A9384'] ?? state.defaults['L-B99A9384']!;
      return { AccountLimit: { ConcurrentExecutions: max, UnreservedConcurrentExecutions: max - state.reserved } };
    },
    'lambda:ListManagedMicrovmImageVersions': ({ Id }) => {
      const versions = orRefuse(state.microvmVersions, 'UnknownOperationException', 404);
      return {
        items: versions.map((imageVersion) => ({ imageArn: Id!, imageVersion, createdAt: 1_790_000_000 })),
      };
    },
    'ecs:ListGateways': () => {
      if (!state.hasGateways) throw new Refusal('UnsupportedFeatureException');
      return { gateways: [] };
    },
  };
}

/** Error codes of each service for a caller without the right, and for one that asks too often. */
const DENIED: Readonly<Record<Protocol, string>> = {
  json: 'AccessDeniedException',
  query: 'AccessDenied',
  ec2: 'UnauthorizedOperation',
  'rest-json': 'AccessDeniedException',
  'rest-xml': 'AccessDenied',
};
const DENIED_BY: Readonly<Record<string, string>> = { 'sns:GetTopicAttributes': 'AuthorizationError' };
const THROTTLED: Readonly<Record<Protocol, string>> = {
  json: 'ThrottlingException',
  query: 'Throttling',
  ec2: 'RequestLimitExceeded',
  'rest-json': 'TooManyRequestsException',
  'rest-xml': 'Throttling',
};

const MEDIA_TYPE: Readonly<Record<Protocol, string>> = {
  json: 'application/x-amz-json-1.1',
  query: 'text/xml',
  ec2: 'text/xml',
  'rest-json': 'application/json',
  'rest-xml': 'text/xml',
};

const escaped = (value: string): string =>
  value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

function xmlOf(tree: Tree, item: string): string {
  return Object.entries(tree)
    .map(([name, value]) => {
      if (value === undefined) return '';
      if (Array.isArray(value))
        return `<${name}>${value.map((each) => `<${item}>${xmlOf(each, item)}</${item}>`).join('')}</${name}>`;
      return `<${name}>${typeof value === 'object' ? xmlOf(value as Tree, item) : escaped(String(value))}</${name}>`;
    })
    .join('');
}

function encode({ protocol, action }: Call, tree: Tree): string {
  const name = action.split(':')[1]!;
  switch (protocol) {
    case 'query':
      return `<${name}Response><${name}Result>${xmlOf(tree, 'member')}</${name}Result><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></${name}Response>`;
    case 'ec2':
      return `<${name}Response><requestId>r</requestId>${xmlOf(tree, 'item')}</${name}Response>`;
    case 'rest-xml':
      return name === 'ListDistributions'
        ? `<DistributionList>${xmlOf(tree, 'member')}</DistributionList>`
        : `<${name}Response>${xmlOf(tree, 'member')}</${name}Response>`;
    default:
      return JSON.stringify(tree);
  }
}

function encodeError(protocol: Protocol, code: string, message: string): string {
  const error = `<Error><Type>Sender</Type><Code>${code}</Code><Message>${message}</Message></Error>`;
  switch (protocol) {
    case 'query':
    case 'rest-xml':
      return `<ErrorResponse>${error}<RequestId>r</RequestId></ErrorResponse>`;
    case 'ec2':
      return `<Response><Errors>${error}</Errors><RequestID>r</RequestID></Response>`;
    default:
      return JSON.stringify({ __type: code, message });
  }
}

/**
 * Serves a scripted account in the protocols of AWS: JSON, query, EC2's query, REST with JSON and with XML. It knows
 * requests that read only, and throws for any other.
 */
export async function startScriptedAws(state: AccountState, faults: Faults = {}) {
  /** Actions that were asked for, with what `ssm` and `acm` need to be checked. */
  const calls: Call[] = [];
  const answers = answersOf(state);
  const server = createServer(async (request, response) => {
    const body = await text(request);
    const answer = (protocol: Protocol, status: number, content: string, code?: string) =>
      response
        .writeHead(status, { 'content-type': MEDIA_TYPE[protocol], ...(code && { 'x-amzn-errortype': code }) })
        .end(content);
    let protocol: Protocol = 'json';
    try {
      const call = callOf(request.method!, new URL(request.url!, 'http://aws'), request.headers, body);
      const { action } = call;
      protocol = call.protocol;
      calls.push(call);
      const fault = faults[action] ?? faults['*'];
      if (fault === 'dropped') return void request.socket.destroy();
      if (fault === 'denied') throw new Refusal(DENIED_BY[action] ?? DENIED[protocol], 403);
      if (fault === 'throttled') throw new Refusal(THROTTLED[protocol], protocol === 'rest-json' ? 429 : 400);
      if (fault) throw new Refusal(fault.code, fault.status);
      const find = answers[action];
      if (find === undefined) throw new Error(`not scripted: ${action}`);
      answer(protocol, 200, encode(call, find(call.input)));
    } catch (error) {
      const { code = 'NotScripted', status = 500, message } = error as Refusal;
      if (code === 'NotScripted') process.stderr.write(`scripted aws: ${message}\n`);
      const isNamedByHeader = protocol === 'rest-json';
      answer(protocol, status, encodeError(protocol, code, message), isNamedByHeader ? code : undefined);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls: calls as readonly Call[],
    close(): void {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** AWS's defaults for a new account. */
const DEFAULTS = {
  'L-B99A9384': 10,
  'L-3032A538': 6,
  'L-36FBB829': 6,
  'L-5ED1D25B': 1,
  'L-F678F1CE': 5,
  'L-A4707A72': 5,
  'L-FE5A380F': 5,
  'L-0263D0A3': 5,
  'L-8A5B8E43': 10_000,
  'L-CDF5615A': 5000,
  'L-01C8A9E0': 300,
  'L-535CA9B6': 5,
  'L-CD1C0CC4': 1024,
};

/** An account made today: nothing but what AWS puts into it. */
export const EMPTY_ACCOUNT: AccountState = {
  quotas: {},
  defaults: DEFAULTS,
  reserved: 0,
  stacks: {},
  roles: [],
  policies: [],
  bootstraps: {},
  tables: [],
  vpcs: 1,
  internetGateways: 1,
  elasticIps: 0,
  natGateways: {},
  subnets: {},
  zones: ['a', 'b', 'c'].map((zone) => TEST_REGION + zone),
  distributions: 0,
  certificates: {},
  hostedZones: {},
  keys: {},
  identities: {},
  sendsToAll: false,
  topics: {},
  secrets: {},
  types: ['AWS::ECS::Gateway', 'AWS::Lambda::MicrovmImage'],
  hasGateways: true,
  microvmVersions: ['1', '2'],
};

/** An account that has been in use for years. */
export const OLD_ACCOUNT: AccountState = {
  ...EMPTY_ACCOUNT,
  quotas: { 'L-B99A9384': 1000, 'L-3032A538': 4000, 'L-36FBB829': 4000, 'L-5ED1D25B': 20 },
  roles: [
    'AWSServiceRoleForECS',
    'AWSServiceRoleForElasticLoadBalancing',
    'AWSServiceRoleForApplicationAutoScaling_ECSService',
  ],
  bootstraps: { hnb659fds: 30 },
  distributions: 3,
};
