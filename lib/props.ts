/** Props of the construct as an app sees them. The schema in `config.ts` validates the same members, and a test compares the two. */

/** Settings of one platform. A string may be a CDK token unless its comment says otherwise. */
export interface AgentPlatformProps {
  /**
   * Name of the stage, and part of every physical name, so that several stages can share an account. 1 to 12 lower-case
   * letters and digits that begin with a letter. No token. A change replaces everything.
   */
  readonly name: string;
  /** Whether the data outlives its stack: it is retained, protected against deletion, and restorable for 35 days. */
  readonly keepsData: boolean;
  /**
   * First part of every physical name: at most 10 characters, lower-case words with hyphens between them, not beginning
   * with `aws`, `amazon` or `internal`. No token. A change replaces everything.
   *
   * @default 'platform'
   */
  readonly namePrefix?: string | undefined;
  /**
   * Letter of the stage if it is one of several cells behind one address (docs/cells.md): `a` to `z`, another for each. New
   * keys, tokens, webhook addresses and names of services contain it. Existing ones keep theirs after a change. No token.
   *
   * @default 'a'
   */
  readonly cell?: string | undefined;
  /**
   * Path of all roles, such as `/agents/`, if the account requires one. At most 512 characters. No token. Choose it
   * before the first deployment.
   *
   * @default '/'
   */
  readonly rolePath?: string | undefined;
  /**
   * ARN of a symmetric KMS key in the same Region that encrypts tables, bucket, vaults, queues, the topic of alarms and the
   * repositories of images, and seals data keys. Its policy must allow IAM policies of the account to grant its use,
   * which is the default for new keys, and have the statement `AgentPlatform.keyStatement()`: without it no alarm is
   * delivered. Choose the key before the first deployment. After a change, existing vaults keep their old key, and
   * existing data keys can no longer be opened.
   *
   * @default - keys of AWS
   */
  readonly keyArn?: string | undefined;
  /**
   * Existing network of the functions, for accounts that allow no function without one. All of them join it, except the
   * one that connects to sandboxes on Fargate, which is in their network.
   *
   * @default - functions have no network, and reach the internet
   */
  readonly functionVpc?: FunctionVpcProps | undefined;
  /**
   * Existing bucket for the access logs of the stacks' buckets.
   *
   * @default - a bucket of the stage for those of its data; none if the stage does not keep its data
   */
  readonly accessLogs?: AccessLogProps | undefined;
  /** Lowest level of the lines that functions log. */
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error';
  /** Retention of log groups in days: one of the values that CloudWatch Logs offers. */
  readonly logRetentionDays: LogRetentionDays;
  /**
   * Where the secrets of workspaces are: in Secrets Manager, or sealed with KMS in the main table, which costs nothing
   * for idle workspaces. `both` while `npm run aws:secrets` moves them (docs/secrets-on-aws.md).
   *
   * @default 'secrets-manager'
   */
  readonly secrets?: 'secrets-manager' | 'envelope' | 'both' | undefined;
  /** Retention of run records in days, at least 1. */
  readonly runRetentionDays: number;
  /**
   * Rate limit of each method, for all callers together. Requests above it are answered 429. Methods that need no key
   * have a part of it.
   */
  readonly throttle: ThrottleProps;
  /**
   * Ceilings of each table and each of its indexes. They bound the bill: requests above them are refused, no matter
   * whose they are.
   *
   * @default - the account's quotas, 40,000 units a second each
   */
  readonly tables?: TablesProps | undefined;
  /**
   * Custom domain of the API.
   *
   * @default - API Gateway's own address
   */
  readonly domain?: ApiDomainProps | undefined;
  /**
   * Restricts who can reach the API.
   *
   * @default - public; keys control what a caller may do
   */
  readonly access?: AccessProps | undefined;
  /**
   * Concurrency of individual functions (docs.aws.amazon.com/lambda/latest/dg/lambda-concurrency.html).
   *
   * @default - limited only by the account
   */
  readonly concurrency?: ConcurrencyProps | undefined;
  /**
   * What serves calls and streams of events: a function each, with one request at a time, or one HTTP server in a Lambda
   * Web Function, whose environments serve many requests at once. Calls that wait for models cost less there.
   *
   * @default 'functions'
   */
  readonly calls?: 'functions' | 'web' | undefined;
  /**
   * How a deployment shifts traffic to the new function versions: by a canary, or all at once.
   *
   * @default - a canary with 10% of the requests for 5 minutes
   */
  readonly release?: CanaryProps | AtOnceProps | undefined;
  /**
   * Sandboxes for programs: tasks on Fargate, Lambda MicroVMs, or none.
   *
   * @default { kind: 'none' }
   */
  readonly sandbox?: NoSandboxProps | FargateProps | MicrovmProps | undefined;
  /**
   * Base images of the runner, for sandboxes on Fargate and services. You then update them yourself.
   *
   * @default - the latest patch of Node.js 24 and of Python 3.12 at each build
   */
  readonly bases?: BaseImageProps | undefined;
  /**
   * Always-on services: instances on Fargate, and their addresses.
   *
   * @default - on, with an ECS gateway
   */
  readonly services?: OffProps | ServicesProps | undefined;
  /**
   * The dashboard on the same address as the API: CloudFront in front of both.
   *
   * @default - on, with a name of CloudFront
   */
  readonly web?: OffProps | WebProps | undefined;
  /**
   * Public address of the platform behind a proxy, which may have a path. No token.
   *
   * @default - that of `web`, or else `domain`, or else API Gateway's own address
   */
  readonly baseUrl?: string | undefined;
  /**
   * A web ACL in front of the API, about 7 USD a month and 0.60 USD per million requests.
   *
   * @default - none
   */
  readonly firewall?: FirewallProps | undefined;
  /**
   * Alarms, 10 cents a month each, and their recipient.
   *
   * @default - no alarms
   */
  readonly alarms?: AlarmProps | undefined;
  /**
   * Whether the stacks set the role with which API Gateway writes logs. An account has one per Region, for all its
   * APIs.
   *
   * @default true
   */
  readonly setsLoggingRole?: boolean | undefined;
  /**
   * Sender of invitations: an address that is verified in SES, itself or through its domain. No token.
   *
   * @default - no e-mail is sent
   */
  readonly mailFrom?: string | undefined;
  /**
   * Sells credits through Stripe. You create the secret, JSON with the members `key` and `webhook_secret`; no template
   * contains its value.
   *
   * @default - users cannot buy credits
   */
  readonly stripe?: SecretProps | undefined;
  /**
   * Allows the operator to set plans and grant credits over the API. You create the secret, whose text is the key.
   *
   * @default - only by commands
   */
  readonly operator?: SecretProps | undefined;
  /**
   * Signs the A2A cards of agents. You create the secret, whose text is a private key for ECDSA on the curve P-256 in PEM.
   *
   * @default - cards have no signatures
   */
  readonly a2a?: SecretProps | undefined;
  /**
   * Sign-in with an OpenID provider. You create the secret, whose text is the platform's client secret at the provider.
   *
   * @default - only API keys and links
   */
  readonly oidc?: OidcProps | undefined;
  /**
   * Sends the spans of the runs of all workspaces, without contents, to your own OpenTelemetry collector.
   *
   * @default - workspaces send their own
   */
  readonly telemetry?: TelemetryProps | undefined;
  /**
   * TCP ports that manifests may name in `egress`. The networks of sandboxes and services open them to all addresses,
   * in addition to 443. At most 20 ports or ranges.
   *
   * @default - none
   */
  readonly egressPorts?: readonly (number | PortRangeProps)[] | undefined;
  /**
   * Ranges of private addresses that `egress` of manifests may lead to, such as `10.20.0.0/16`. Routes to them are
   * yours. At most 20. No tokens.
   *
   * @default - public addresses only
   */
  readonly egressPrivateRanges?: readonly string[] | undefined;
  /**
   * Other settings of the platform, such as its plans, by their names in `docs/settings.md`. All variables of a function
   * together may have 4 KB. No secrets, because templates contain them.
   *
   * @default - none
   */
  readonly settings?: Readonly<Record<string, string>> | undefined;
}

/** Members of a stage file: the props, and settings of the app around the construct, which the CDK configures in its own ways. */
export interface StageProps extends AgentPlatformProps {
  /**
   * Qualifier with which the account was bootstrapped: at most 10 lower-case letters and digits.
   *
   * @default 'hnb659fds', the CDK's own
   */
  readonly bootstrapQualifier?: string | undefined;
  /**
   * Name of the policy that the account requires as permissions boundary of every role.
   *
   * @default - none
   */
  readonly permissionsBoundary?: string | undefined;
}

/** Retention times that CloudWatch Logs offers, in days: docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html. */
export type LogRetentionDays =
  | 1
  | 3
  | 5
  | 7
  | 14
  | 30
  | 60
  | 90
  | 120
  | 150
  | 180
  | 365
  | 400
  | 545
  | 731
  | 1096
  | 1827
  | 2192
  | 2557
  | 2922
  | 3288
  | 3653;

/** Functions that serve requests. */
export type ApiFunctionName =
  | 'mcp'
  | 'meta'
  | 'a2a'
  | 'agents'
  | 'billing'
  | 'calls'
  | 'catalog'
  | 'downloads'
  | 'events'
  | 'keys'
  | 'runs'
  | 'schedules'
  | 'secrets'
  | 'service-instances'
  | 'services'
  | 'storage'
  | 'tasks'
  | 'uploads'
  | 'usage'
  | 'workspaces';

/** Functions that clocks, queues and other functions start. */
export type BackgroundFunctionName =
  | 'sweeper'
  | 'collector'
  | 'schedule-fired'
  | 'schedule-sweeper'
  | 'loop-worker'
  | 'timer-sweeper'
  | 'service-keeper'
  | 'reconciler'
  | 'usage-writer'
  | 'install';

/** A range of ports. */
export interface PortRangeProps {
  /** First port, 1 to 65,535. */
  readonly from: number;
  /** Last port, not below `from`. */
  readonly to: number;
}

/** An existing network for functions. */
export interface FunctionVpcProps {
  /** Id of the VPC. */
  readonly id: string;
  /**
   * Private subnets of the functions. They need a route to the internet through a NAT gateway: functions call AWS, models
   * and the targets of webhooks. The platform refuses requests of tenants to private addresses there.
   */
  readonly subnetIds: readonly string[];
  /** Security groups of the functions, 1 to 5. They must allow outbound TCP. */
  readonly securityGroupIds: readonly string[];
}

/** An existing bucket for access logs, in the same account and Region. Its policy must allow `logging.s3.amazonaws.com` to write. */
export interface AccessLogProps {
  /** Name of the bucket. */
  readonly bucketName: string;
  /**
   * First part of the names of the logs, such as `agents/`. The names of the stage and the bucket follow.
   *
   * @default - none
   */
  readonly prefix?: string | undefined;
}

/** Ceilings of DynamoDB, in units a second. */
export interface TablesProps {
  /** A unit is a consistent read of up to 4 KB. At least 1. @default - the account's quota */
  readonly maxReadUnits?: number | undefined;
  /** A unit is a write of up to 1 KB. At least 1. @default - the account's quota */
  readonly maxWriteUnits?: number | undefined;
}

/** Rate limit of each method of the API, for all callers together. */
export interface ThrottleProps {
  /** Requests per second in steady state, at least 1. A Region's quota is 10,000 for all APIs of an account. */
  readonly requestsPerSecond: number;
  /** Requests that may arrive at once, at least 1. A Region's quota is 5,000 for all APIs of an account. */
  readonly burst: number;
}

/** Custom domain of the API. */
export interface ApiDomainProps {
  /** Host name, such as `agents.example.org`. No token. */
  readonly name: string;
  /** ARN of its certificate in AWS Certificate Manager, in the stacks' Region. */
  readonly certificateArn: string;
  /**
   * Id of the Route 53 hosted zone in which the stacks create the record. No token.
   *
   * @default - you create the record
   */
  readonly hostedZoneId?: string | undefined;
  /**
   * Clients must present a certificate. The default endpoint of AWS is then disabled, and `services` and `web` must be
   * off.
   *
   * @default - clients present no certificate
   */
  readonly mtls?: MtlsProps | undefined;
}

/** Authorities of client certificates. */
export interface MtlsProps {
  /** PEM file with the certificates of the authorities, as `s3://bucket/key`. No token. */
  readonly truststore: string;
  /**
   * Version of the object. API Gateway reads the file again only if this changes.
   *
   * @default - the version of the first deployment
   */
  readonly version?: string | undefined;
}

/** Who can reach the API. Others are answered 403. `services` and `web` must be off. */
export interface AccessProps {
  /**
   * Ids of interface endpoints for `execute-api`. The API is then private: it is reachable only through them.
   *
   * @default - a public API
   */
  readonly vpcEndpointIds?: readonly string[] | undefined;
  /**
   * Address ranges of callers in CIDR notation; for a private API, addresses in the endpoint's network. No tokens.
   *
   * @default - any address
   */
  readonly ranges?: readonly string[] | undefined;
}

/** Concurrency of functions by their names. */
export interface ConcurrencyProps {
  /**
   * Reserved executions, which are also the function's maximum. Lambda always keeps 100 of the account unreserved.
   *
   * @default - none
   */
  readonly reserved?: Readonly<Partial<Record<ApiFunctionName | BackgroundFunctionName, number>>> | undefined;
  /**
   * Provisioned executions, billed by the hour. Only for functions that serve requests. With `reserved`, at most half
   * of that.
   *
   * @default - none
   */
  readonly provisioned?: Readonly<Partial<Record<ApiFunctionName, number>>> | undefined;
}

/** Deploys all at once. */
export interface AtOnceProps {
  /** All requests go to the new versions at once. */
  readonly kind: 'at-once';
}

/** Deploys by a canary. An alarm during this time rolls the deployment back. */
export interface CanaryProps {
  /**
   * Part of the requests goes to the new versions first.
   *
   * @default 'canary'
   */
  readonly kind?: 'canary' | undefined;
  /**
   * Percentage of requests that the canary gets, 1 to 50.
   *
   * @default 10
   */
  readonly percent?: number | undefined;
  /**
   * Duration of the canary in minutes, 1 to 12.
   *
   * @default 5
   */
  readonly minutes?: number | undefined;
}

/** Programs do not run. */
export interface NoSandboxProps {
  /** Agents are prompts and loops only. */
  readonly kind: 'none';
}

/** Programs run in tasks on Fargate. */
export interface FargateProps {
  /** Tasks on Fargate. */
  readonly kind: 'fargate';
  /**
   * A Lambda function for runs of one short command, beside the tasks of everything else.
   *
   * @default - none
   */
  readonly lambda?: ProgramFunctionProps | undefined;
  /**
   * Number of idle tasks kept ready at all times, which are billed. 0 to 10,000.
   *
   * @default 0
   */
  readonly idle?: number | undefined;
  /**
   * Whether a task serves further runs of the `same` kind (one workspace, agent version, set of grants and tenant), or
   * only one run.
   *
   * @default 'same'
   */
  readonly reuse?: 'same' | 'never' | undefined;
  /**
   * Whether asynchronous runs whose manifest allows them to be `retried` use Fargate Spot, which costs less and which
   * AWS may reclaim.
   *
   * @default 'retried'
   */
  readonly spot?: 'retried' | 'never' | undefined;
  /**
   * Maximum number of tasks, idle or not, which limits the bill. 1 to 10,000. The account's quota of Fargate vCPUs and
   * the addresses of `cidr` must allow for them.
   *
   * @default 20
   */
  readonly max?: number | undefined;
  /**
   * CPU of one task, in 1,024ths of a processor.
   *
   * @default 512
   */
  readonly cpu?: FargateCpu | undefined;
  /**
   * Memory of one task in MB, a size that Fargate offers for `cpu`. Installations may use 2,048.
   *
   * @default 2048
   */
  readonly memoryMb?: number | undefined;
  /**
   * Availability Zones of the tasks, at least one. Some, such as `us-east-1e`, lack services.
   *
   * @default - two that AWS chooses
   */
  readonly zones?: readonly string[] | undefined;
  /**
   * Number of days after which the image is rebuilt with the latest updates of its base images and packages. 1 to 90.
   *
   * @default 7
   */
  readonly rebuildDays?: number | undefined;
  /**
   * Address range of the network: private, /16 to /20. No token.
   *
   * @default '10.64.0.0/20'
   */
  readonly cidr?: string | undefined;
  /**
   * How tasks reach the internet: through their own public addresses, from private subnets through NAT gateways (one per
   * zone), or not at all: from isolated subnets they reach S3, and the image and the log through interface endpoints.
   *
   * @default 'public'
   */
  readonly egress?: 'public' | 'nat' | 'endpoints' | undefined;
  /**
   * An existing network with its own egress, instead of `zones`, `cidr` and `egress`.
   *
   * @default - the stacks create a network
   */
  readonly vpc?: SandboxVpcProps | undefined;
}

/** Sizes of a Fargate task, in 1,024ths of a processor. */
export type FargateCpu = 256 | 512 | 1024 | 2048 | 4096;

/**
 * An existing network for tasks, which get no public address. Programs may connect to port 443 of everything else in it.
 */
export interface SandboxVpcProps {
  /** Id of the VPC. */
  readonly id: string;
  /** Subnets of the tasks. They need routes to ECR, S3 and CloudWatch Logs, and to everything that programs call. */
  readonly taskSubnetIds: readonly string[];
  /** Subnets of the function that connects to tasks. They need routes to DynamoDB and S3. */
  readonly functionSubnetIds: readonly string[];
}

/** Programs run in Lambda MicroVMs, in Regions that have them. */
export interface MicrovmProps {
  /** Lambda MicroVMs. */
  readonly kind: 'microvm';
  /**
   * A Lambda function for runs of one short command, beside the VMs of everything else.
   *
   * @default - none
   */
  readonly lambda?: ProgramFunctionProps | undefined;
  /**
   * Memory in MB for which each VM is billed while it runs, with one processor per 2,048. A VM has four times as much of
   * both; usage above the base is billed in addition.
   *
   * @default 512
   */
  readonly memoryMb?: 512 | 1024 | 2048 | 4096 | 8192 | undefined;
  /**
   * Number of VMs started per second, 1 to 100: the account's quota of `RunMicrovm`, or less if it is shared. Further
   * calls wait.
   *
   * @default 5
   */
  readonly launchesPerSecond?: number | undefined;
  /**
   * Version of AWS's base image al2023-1; `aws lambda-microvms list-managed-microvm-image-versions` lists them.
   *
   * @default '1'
   */
  readonly baseImageVersion?: string | undefined;
}

/** A Lambda function with tenant isolation for runs of one short command. */
export interface ProgramFunctionProps {
  /** What such a function cannot promise, word by word (docs/sandbox.md explains it). */
  readonly acknowledges: 'A program may read and answer later runs of its own kind, and connect to any public address.';
  /**
   * Memory of the function in MB, 256 to 10,240, and with it its share of a processor. Programs get 128 MB less; those
   * whose limit (the setting `PLATFORM_SANDBOX_MEMORY_MB`, 512 by default) is higher run in the other sandbox.
   *
   * @default 640
   */
  readonly memoryMb?: number | undefined;
  /**
   * Maximum number of programs at once, at least 1, which is reserved of the account's concurrency.
   *
   * @default - what the account has left
   */
  readonly max?: number | undefined;
}

/** Base images of the runner, both Debian 12, as `registry/name@sha256:…`. */
export interface BaseImageProps {
  /**
   * Image with Node.js 24.
   *
   * @default - the latest patch at each build
   */
  readonly node?: string | undefined;
  /**
   * Image with Python 3.12.
   *
   * @default - the latest patch at each build
   */
  readonly python?: string | undefined;
}

/** Leaves a part of the platform out. */
export interface OffProps {
  /** The stage has no such stack. */
  readonly kind: 'off';
}

/** Always-on services. */
export interface ServicesProps {
  /**
   * The stage has services.
   *
   * @default 'on'
   */
  readonly kind?: 'on' | undefined;
  /**
   * CPU of one instance, in 1,024ths of a processor.
   *
   * @default 256
   */
  readonly cpu?: FargateCpu | undefined;
  /**
   * Memory of one instance in MB, a size that Fargate offers for `cpu`: the app's own (`PLATFORM_SANDBOX_MEMORY_MB`),
   * plus about 150 for the runner.
   *
   * @default 1024
   */
  readonly memoryMb?: number | undefined;
  /**
   * Maximum number of load balancers that ECS creates, each for 25 services; they are billed by the hour. 1 to 10.
   * Ignored with a `domain`.
   *
   * @default 4
   */
  readonly maxAlbs?: number | undefined;
  /**
   * TCP ports that apps may connect to at any public address, in addition to 443, which the runner needs. At most 50
   * ports or ranges.
   *
   * @default [80]
   */
  readonly outboundPorts?: readonly (number | PortRangeProps)[] | undefined;
  /**
   * Availability Zones of the instances, at least two.
   *
   * @default - two that AWS chooses
   */
  readonly zones?: readonly string[] | undefined;
  /**
   * Address range of the network: private, /16 to /20. No token.
   *
   * @default '10.65.0.0/20'
   */
  readonly cidr?: string | undefined;
  /**
   * How instances reach the internet: through their own public addresses, or from private subnets through NAT gateways
   * (one per zone).
   *
   * @default 'public'
   */
  readonly egress?: 'public' | 'nat' | undefined;
  /**
   * An existing network, instead of `zones`, `cidr` and `egress`. Before you change it, delete the stack of the services.
   *
   * @default - the stacks create a network
   */
  readonly vpc?: ServicesVpcProps | undefined;
  /**
   * Host names of services below your own domain, through a load balancer of the stage, for at most 100 services.
   * Required in Regions without ECS gateways.
   *
   * @default - each service gets a host name of an ECS gateway
   */
  readonly domain?: ServicesDomainProps | undefined;
}

/**
 * An existing network for services. Apps may connect to port 443 and `outboundPorts` of everything else in it: their
 * security group has no other rule.
 */
export interface ServicesVpcProps {
  /** Id of the VPC. */
  readonly id: string;
  /**
   * Private subnets of the instances, in at least two Availability Zones. They need routes to ECR, S3, CloudWatch Logs and
   * the API, and to everything that apps call; instances get no public address.
   */
  readonly instanceSubnetIds: readonly string[];
  /** Public subnets of the load balancers, in at least two Availability Zones. */
  readonly balancerSubnetIds: readonly string[];
}

/** Domain of services. */
export interface ServicesDomainProps {
  /** Parent of the host names, such as `services.example.org`. No token. */
  readonly name: string;
  /** ARN of a certificate for `*.<name>` in AWS Certificate Manager, in the stacks' Region. */
  readonly certificateArn: string;
  /**
   * Id of the Route 53 hosted zone in which the stacks create the wildcard record. No token.
   *
   * @default - you create the record
   */
  readonly hostedZoneId?: string | undefined;
}

/** CloudFront in front of the dashboard, the documentation and the API. */
export interface WebProps {
  /**
   * The stage has a dashboard.
   *
   * @default 'on'
   */
  readonly kind?: 'on' | undefined;
  /**
   * Custom domain.
   *
   * @default - a name of CloudFront
   */
  readonly domain?: WebDomainProps | undefined;
  /**
   * ARN of a web ACL with the scope `CLOUDFRONT`, which is in us-east-1.
   *
   * @default - none; `firewall` is in front of the API
   */
  readonly webAclArn?: string | undefined;
  /**
   * Countries whose addresses CloudFront answers. Programs that use the API's own address are not affected.
   *
   * @default - all
   */
  readonly countries?: CountryProps | undefined;
}

/** Countries that CloudFront answers, by the addresses of viewers. */
export interface CountryProps {
  /** Whether only these countries are answered, or all others. */
  readonly kind: 'allow' | 'deny';
  /** Codes of ISO 3166-1, such as `DE`, at least one. No tokens. */
  readonly codes: readonly string[];
}

/** Custom domain of the dashboard. */
export interface WebDomainProps {
  /** Host name, such as `agents.example.org`. No token. */
  readonly name: string;
  /** ARN of its certificate in AWS Certificate Manager. CloudFront accepts only certificates of us-east-1. */
  readonly certificateArn: string;
  /**
   * Id of the Route 53 hosted zone in which the stacks create the record. No token.
   *
   * @default - you create the record
   */
  readonly hostedZoneId?: string | undefined;
}

/** Web ACL in front of the API. It also blocks addresses that AWS lists as malicious. */
export interface FirewallProps {
  /** Requests of one address in five minutes, above which it is answered 429. 10 to 2,000,000,000. */
  readonly requestsPerFiveMinutes: number;
}

/** Recipient of alarms. */
export interface AlarmProps {
  /**
   * Address that is subscribed to the stacks' topic, and whose owner must confirm the subscription. Not together with
   * `topicArn`. No token.
   *
   * @default - you subscribe to the topic yourself
   */
  readonly email?: string | undefined;
  /**
   * ARN of an existing topic. Its policy must allow CloudWatch and EventBridge to publish, and with `dailyUsd` AWS
   * Budgets too.
   *
   * @default - the stacks create a topic
   */
  readonly topicArn?: string | undefined;
  /**
   * Daily cost in USD, of the whole account, above which an alert is sent.
   *
   * @default - costs are not monitored
   */
  readonly dailyUsd?: number | undefined;
  /**
   * Other thresholds by the names of alarms in `docs/operate.md`, in the unit of each alarm, such as
   * `{ slow: 5000 }`. A name that the stage does not have is refused.
   *
   * @default - the platform's own
   */
  readonly thresholds?: Readonly<Record<string, number>> | undefined;
}

/** A secret that you create. */
export interface SecretProps {
  /** Name of the secret in Secrets Manager, not its ARN. No token. */
  readonly secretName: string;
}

/** OpenID provider. */
export interface OidcProps extends SecretProps {
  /** Address of the provider, `https://…`. No token. */
  readonly issuer: string;
  /** Id of the platform at the provider. */
  readonly clientId: string;
  /**
   * E-mail domains whose users may sign in.
   *
   * @default - any
   */
  readonly domains?: readonly string[] | undefined;
}

/** OpenTelemetry collector of the operator. */
export interface TelemetryProps {
  /**
   * Base address of the collector, `https://…` or, in your own network (`functionVpc`), `http://…`. Spans go to
   * `/v1/traces` below it. No user, query or token.
   */
  readonly endpoint: string;
  /**
   * Name of a secret in Secrets Manager, not its ARN, that you create: its text is the headers of each request, as
   * `name=value` separated by commas, with values percent-encoded. No template contains its value. No token.
   *
   * @default - no headers
   */
  readonly secretName?: string | undefined;
  /**
   * The attribute `service.name` of all spans.
   *
   * @default 'agent-platform'
   */
  readonly serviceName?: string | undefined;
  /**
   * More attributes of the resource, such as `{ 'deployment.environment.name': 'prod' }`. No tokens.
   *
   * @default - none
   */
  readonly attributes?: Readonly<Record<string, string>> | undefined;
  /**
   * Which traces are sent, by the names of OpenTelemetry's SDKs. `parentbased_…` does what the caller decided, if one
   * began the trace.
   *
   * @default 'parentbased_always_on'
   */
  readonly sampler?: TraceSampler | undefined;
  /**
   * Part of the traces that the samplers with `traceidratio` send, from 0 to 1.
   *
   * @default 1
   */
  readonly ratio?: number | undefined;
}

/** Samplers of OpenTelemetry's SDKs. */
export type TraceSampler =
  | 'always_on'
  | 'always_off'
  | 'traceidratio'
  | 'parentbased_always_on'
  | 'parentbased_always_off'
  | 'parentbased_traceidratio';
