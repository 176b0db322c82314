import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import * as z from 'zod';
import { BACKGROUND_FUNCTIONS } from '#core/api/background.ts';
import { type PortRange, portsText } from '#core/base/port-ranges.ts';
import { privateRangeProblem } from '#core/base/private-ranges.ts';
import { transportsSchema } from '#core/base/transports.ts';
import { FUNCTION_NAMES } from '#core/http/route.ts';

/** Retention times that CloudWatch Logs offers, in days: docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html. */
const RETENTION_DAYS = [
  1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
] as const;

/**
 * A text that matches the pattern, or a CDK token, whose value is known only at deployment, as for a resource in the
 * same app.
 */
const form = (pattern: RegExp, message: string) =>
  z.string().refine((value) => value.includes('${Token[') || pattern.test(value), message);

/** Name of an Availability Zone. */
const zone = () => form(/^[a-z]{2}(-[a-z]+)+-\d[a-z]$/, 'must be a zone such as us-east-1a');

/** ARN of a certificate in AWS Certificate Manager. @param region - @default - the Region of the stacks */
const certificateArn = (region?: string) =>
  form(
    new RegExp(`^arn:aws[\\w-]*:acm:${region ?? '[\\w-]+'}:\\d{12}:certificate/[\\w-]+$`),
    `must be the ARN of a certificate${region ? ` of ${region}` : ''}`,
  );

const vpcId = () => form(/^vpc-[\da-f]{8,17}$/, 'must be the id of a VPC, such as vpc-0123456789abcdef0');
const subnetIds = () =>
  z.array(form(/^subnet-[\da-f]{8,17}$/, 'must be the id of a subnet, such as subnet-0123456789abcdef0')).min(1);

/** Address range of a network that the stacks create: large enough for its parts, and private (RFC 1918). */
const cidr = (fallback: string) =>
  z
    .cidrv4()
    .regex(/^(10\.|172\.(1[6-9]|2\d|3[01])\.|192\.168\.).*\/(1[6-9]|20)$/, 'must be a private network of /16 to /20')
    .default(fallback);

const pinnedImage = () =>
  form(/^[\w.-]+(:\d+)?\/[\w./-]+(:[\w.-]+)?@sha256:[\da-f]{64}$/, 'must include its digest: registry/name@sha256:…');

const port = () => z.int().min(1).max(65_535);
const ports = (max: number) =>
  z
    .array(
      z.union([
        port(),
        z
          .strictObject({ from: port(), to: port() })
          .refine(({ from, to }) => from <= to, { error: '`from` must not be above `to`' }),
      ]),
    )
    .max(max);

/** Returns the ranges of ports for rules of security groups, without duplicates. */
export function openPorts(given: readonly (number | PortRange)[]): PortRange[] {
  const ranges = given.map((each) => (typeof each === 'number' ? { from: each, to: each } : each));
  return [...new Map(ranges.map((range) => [`${range.from}-${range.to}`, range])).values()];
}

/** Settings of the platform that follow from members of a stage, besides its `settings`. */
export const egressSettings = ({ egressPorts, egressPrivateRanges }: Stage): Record<string, string> => ({
  PLATFORM_EGRESS_PORTS: egressPorts.length === 0 ? 'none' : portsText(openPorts(egressPorts)),
  ...(egressPrivateRanges.length > 0 && { PLATFORM_EGRESS_PRIVATE_RANGES: egressPrivateRanges.join(',') }),
});

/** Memory in MB that Fargate offers for each CPU size: docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-tasks-services.html. */
const FARGATE_MEMORY: {
  readonly [cpu: number]: { readonly min: number; readonly max: number; readonly step: number };
} = {
  256: { min: 512, max: 2048, step: 512 },
  512: { min: 1024, max: 4096, step: 1024 },
  1024: { min: 2048, max: 8192, step: 1024 },
  2048: { min: 4096, max: 16_384, step: 1024 },
  4096: { min: 8192, max: 30_720, step: 1024 },
};

const servicesOn = z
  .strictObject({
    kind: z.literal('on').optional(),
    /** CPU of one instance, in 1,024ths of a processor. */
    cpu: z.literal([256, 512, 1024, 2048, 4096]).default(256),
    /** Memory of one instance: the app's own (`PLATFORM_SANDBOX_MEMORY_MB`), plus about 150 MB for the runner. */
    memoryMb: z.int().default(1024),
    /**
     * Maximum number of load balancers that ECS creates, each for 25 services; they are billed by the hour. Ignored
     * with a `domain`.
     */
    maxAlbs: z.int().min(1).max(10).default(4),
    /** TCP ports that apps may connect to at any public address, in addition to 443, which the runner needs. */
    outboundPorts: ports(50).default([80]),
    /** At least two Availability Zones for the instances. @default - two that AWS chooses */
    zones: z.array(zone()).min(2).optional(),
    /** Address range of the network. */
    cidr: cidr('10.65.0.0/20'),
    /**
     * How instances reach the internet: through their own public addresses, or from private subnets through NAT
     * gateways (one per zone).
     */
    egress: z.enum(['public', 'nat']).default('public'),
    /**
     * Host names of services below your own domain, through a load balancer of the stage. Required in Regions without
     * ECS gateways. @default - each service gets a host name of an ECS gateway
     */
    domain: z
      .strictObject({
        name: z.hostname(),
        /** ARN of a certificate for `*.<name>`. */
        certificateArn: certificateArn(),
        /** Route 53 hosted zone in which the stacks create the wildcard record. @default - you create it */
        hostedZoneId: z
          .string()
          .regex(/^[A-Z0-9]{1,32}$/, 'must be the id of a hosted zone, such as Z0123456789ABC')
          .optional(),
      })
      .optional(),
  })
  .superRefine(({ cpu, memoryMb }, context) => {
    const { min, max, step } = FARGATE_MEMORY[cpu]!;
    if (memoryMb < min || memoryMb > max || memoryMb % step !== 0) {
      const message = `Fargate offers ${min} to ${max} MB in steps of ${step} for ${cpu} CPU units`;
      context.addIssue({ code: 'custom', path: ['memoryMb'], message });
    }
  });

const webOn = z.strictObject({
  kind: z.literal('on').optional(),
  /** Custom domain. @default - a name of CloudFront */
  domain: z
    .strictObject({
      name: z.hostname(),
      /** CloudFront accepts only certificates in us-east-1. */
      certificateArn: certificateArn('us-east-1'),
    })
    .optional(),
});

/** A secret that the operator creates: no template contains its value. */
const secret = () =>
  z.strictObject({
    secretName: z.string().regex(/^[\w/+=.@-]{1,500}$/, 'must be the name of a secret in Secrets Manager, not its ARN'),
  });

/** Secret settings of the local host -> the member that names a secret instead. */
const SECRETS = {
  PLATFORM_STRIPE_KEY: 'stripe',
  PLATFORM_STRIPE_WEBHOOK_SECRET: 'stripe',
  PLATFORM_OPERATOR_KEY: 'operator',
  PLATFORM_OIDC_CLIENT_SECRET: 'oidc',
};

/** What a stage must say to run programs in Lambda functions: the promises that these cannot keep (docs/sandbox.md). */
export const PROGRAM_RISKS =
  'A program may read and answer later runs of its own kind, and connect to any public address.';

/** A Lambda function with tenant isolation for runs of one short command, beside the sandbox of everything else. */
const programsInLambda = () =>
  z
    .strictObject({
      /** The text of `PROGRAM_RISKS`, word by word. */
      acknowledges: z.literal(PROGRAM_RISKS, {
        error: () => `must acknowledge what docs/sandbox.md explains, as "${PROGRAM_RISKS}"`,
      }),
      /**
       * Memory of the function, and with it its share of a processor. Programs get 128 MB less; those whose limit
       * (`PLATFORM_SANDBOX_MEMORY_MB`, 512 by default) is higher run in the other sandbox.
       */
      memoryMb: z.int().min(256).max(10_240).default(640),
      /** Maximum number of programs at once, reserved of the account's concurrency. @default - what the account has left */
      max: z.int().min(1).optional(),
    })
    .optional();

/** Props of the construct. */
const platformSchema = z
  .strictObject({
    /** Part of every physical name, so that two stages can share an account. */
    name: z
      .string()
      .regex(/^[a-z][a-z0-9]{0,11}$/, 'must be 1 to 12 lower-case letters and digits, starting with a letter'),
    /** Whether the data outlives its stack: it is retained, protected against deletion, and restorable for 35 days. */
    keepsData: z.boolean(),
    /** First part of every physical name. */
    namePrefix: z
      .string()
      .max(10)
      .regex(
        /^(?!aws|amazon|internal)[a-z][a-z0-9]*(-[a-z0-9]+)*$/,
        'must be lower-case words with hyphens between them, and not begin with aws, amazon or internal',
      )
      .default('platform'),
    /** Path of all roles, if the account requires one. Choose it before the first deployment. */
    rolePath: z
      .string()
      .max(512)
      .regex(/^\/([\w+=,.@-]+\/)*$/, 'must begin and end with a slash, such as /agents/')
      .default('/'),
    /**
     * A symmetric KMS key in the same Region that encrypts tables, bucket and vaults, and seals data keys. Its policy
     * must allow IAM policies of the account to grant its use, which is the default for new keys. Choose it before the
     * first deployment: existing vaults keep their key, and existing data keys can no longer be opened.
     * @default - keys of AWS
     */
    keyArn: form(
      /^arn:aws[\w-]*:kms:[\w-]+:\d{12}:key\/[\w-]+$/,
      'must be the ARN of a key, not of an alias',
    ).optional(),
    logLevel: z.enum(['debug', 'info', 'warn', 'error']),
    logRetentionDays: z.literal(RETENTION_DAYS),
    /** Retention of run records in days. */
    runRetentionDays: z.int().positive(),
    /** Rate limit for all callers together; requests above it get status 429. */
    throttle: z.strictObject({ requestsPerSecond: z.int().positive(), burst: z.int().positive() }),
    /** A custom domain, and the ARN of its certificate in AWS Certificate Manager, in the stacks' Region. */
    domain: z
      .strictObject({
        name: z.hostname(),
        certificateArn: certificateArn(),
        /**
         * Clients must present a certificate signed by one of these authorities: a PEM file of certificates, as
         * s3://bucket/key, and its version. The default endpoint of AWS is then disabled. @default - clients present no
         * certificate
         */
        mtls: z
          .strictObject({
            truststore: z.string().regex(/^s3:\/\/[\w.-]+\/.+$/, 'must be s3://bucket/key'),
            version: z.string().optional(),
          })
          .optional(),
      })
      .optional(),
    /** Restricts who can reach the API. @default - public; keys control what a caller may do */
    access: z
      .strictObject({
        /** Makes the API private: it is reachable only through these interface endpoints for `execute-api`. */
        vpcEndpointIds: z
          .array(form(/^vpce-[\da-f]{8,17}$/, 'must be the id of an endpoint, such as vpce-0123456789abcdef0'))
          .min(1)
          .optional(),
        /** Allowed address ranges of callers; for a private API, addresses in the endpoint's network. */
        ranges: z
          .array(z.union([z.cidrv4(), z.cidrv6()]))
          .min(1)
          .optional(),
      })
      .prefault({}),
    /** Concurrency of individual functions: docs.aws.amazon.com/lambda/latest/dg/lambda-concurrency.html. */
    concurrency: z
      .strictObject({
        /** Reserved concurrency, which is also the function's maximum. */
        reserved: z.partialRecord(z.enum([...FUNCTION_NAMES, ...BACKGROUND_FUNCTIONS]), z.int().min(1)).default({}),
        /** Provisioned concurrency, billed by the hour. Only for functions that serve requests. */
        provisioned: z.partialRecord(z.enum(FUNCTION_NAMES), z.int().min(1)).default({}),
      })
      .superRefine(({ reserved, provisioned }, context) => {
        for (const fn of FUNCTION_NAMES) {
          const [most, kept] = [reserved[fn], provisioned[fn]];
          if (most === undefined || kept === undefined || most >= 2 * kept) continue;
          const message = `must be at least twice the provisioned concurrency (${2 * kept}): a deployment starts the new version beside the old one`;
          context.addIssue({ code: 'custom', path: ['reserved', fn], message });
        }
      })
      .prefault({}),
    /**
     * How a deployment shifts traffic to the new function versions, all at once or by a canary
     * (docs/deploy.md#upgrades-and-rollback).
     */
    release: z
      .discriminatedUnion('kind', [
        z.strictObject({ kind: z.literal('at-once') }),
        z.strictObject({
          kind: z.literal('canary').optional(),
          /** Percentage of requests that the canary gets. */
          percent: z.number().min(1).max(50).default(10),
          /** Duration of the canary. An alarm during this time rolls the deployment back. */
          minutes: z.int().min(1).max(12).default(5),
        }),
      ])
      .prefault({}),
    /** Sandboxes for programs: tasks on Fargate, Lambda MicroVMs, or none (docs/sandbox.md compares them). */
    sandbox: z
      .discriminatedUnion('kind', [
        z.strictObject({ kind: z.literal('none') }),
        z.strictObject({
          kind: z.literal('fargate'),
          /** Runs of one short command in a Lambda function instead of a task. @default - none */
          lambda: programsInLambda(),
          /** Number of idle tasks kept ready at all times, which are billed. */
          idle: z.int().min(0).max(200).default(0),
          /**
           * Whether a task serves further runs of the `same` kind (one workspace, agent version, set of grants and
           * tenant: docs/sandbox.md), or only one run.
           */
          reuse: z.enum(['same', 'never']).default('same'),
          /**
           * Whether asynchronous runs whose manifest allows them to be `retried` use Fargate Spot, which costs less and
           * which AWS may reclaim (docs/sandbox.md#fargate-spot).
           */
          spot: z.enum(['retried', 'never']).default('retried'),
          /** Maximum number of tasks, idle or not: limits the bill. */
          max: z.int().min(1).max(200).default(20),
          /** CPU of one task, in 1,024ths of a processor. */
          cpu: z.literal([256, 512, 1024, 2048, 4096]).default(512),
          /** Memory of one task; installations may use 2 GB. Fargate allows specific sizes for each `cpu`. */
          memoryMb: z.int().multipleOf(512).min(512).max(30_720).default(2048),
          /** Availability Zones of the tasks. Some, such as `us-east-1e`, lack services. @default - two that AWS chooses */
          zones: z.array(zone()).min(1).optional(),
          /**
           * Number of days after which the image is rebuilt with the latest updates of its base images and packages.
           */
          rebuildDays: z.int().min(1).max(90).default(7),
          /** Address range of the network. */
          cidr: cidr('10.64.0.0/20'),
          /**
           * How tasks reach the internet: through their own public addresses, from private subnets through NAT gateways
           * (one per zone), or not at all: from isolated subnets they reach S3, and the image and the log through
           * interface endpoints.
           */
          egress: z.enum(['public', 'nat', 'endpoints']).default('public'),
          /**
           * An existing network with its own egress; tasks get no public address. Programs may connect to port 443 of
           * everything else in it. @default - the stacks create a network
           */
          vpc: z
            .strictObject({
              id: vpcId(),
              /**
               * Subnets of the tasks. They need routes to ECR, S3 and CloudWatch Logs, and to everything that programs
               * call.
               */
              taskSubnetIds: subnetIds(),
              /** Subnets of the function that connects to tasks. It needs routes to DynamoDB and S3. */
              functionSubnetIds: subnetIds(),
            })
            .optional(),
        }),
        z.strictObject({
          kind: z.literal('microvm'),
          /** Runs of one short command in a Lambda function instead of a VM. @default - none */
          lambda: programsInLambda(),
          /**
           * Memory for which each VM is billed while it runs, with one processor per 2 GB. A VM has four times as much
           * of both; usage above the base is billed in addition.
           */
          memoryMb: z.literal([512, 1024, 2048, 4096, 8192]).default(512),
          /**
           * Number of VMs started per second: the account's quota of `RunMicrovm`, or less if it is shared. Further
           * calls wait.
           */
          launchesPerSecond: z.int().min(1).max(100).default(5),
          /** Version of AWS's base image al2023-1; `aws lambda-microvms list-managed-microvm-image-versions` lists them. */
          baseImageVersion: z.string().default('1'),
        }),
      ])
      .prefault({ kind: 'none' }),
    /**
     * Base images of the runner, for sandboxes on Fargate and services, pinned by digest (both Debian 12). You then
     * update them yourself. @default - the latest patch of Node.js 24 and of Python 3.12 at each build
     */
    bases: z.strictObject({ node: pinnedImage().optional(), python: pinnedImage().optional() }).prefault({}),
    /** Always-on services: instances on Fargate, and their addresses; or none (docs/services.md). */
    services: z.discriminatedUnion('kind', [z.strictObject({ kind: z.literal('off') }), servicesOn]).prefault({}),
    /**
     * The dashboard, on the same address as the API: CloudFront in front of both (docs/deploy.md#the-dashboard), or
     * none.
     */
    web: z.discriminatedUnion('kind', [z.strictObject({ kind: z.literal('off') }), webOn]).prefault({}),
    /**
     * Public address of the platform behind a proxy. @default - `web`, or else `domain`, or else API Gateway's own
     * address
     */
    baseUrl: z.url().optional(),
    /** A web ACL in front of the API (about 7 USD a month, 0.60 per million requests) with a rate limit per address. */
    firewall: z.strictObject({ requestsPerFiveMinutes: z.int().min(10).max(2_000_000_000) }).optional(),
    /** Alarms (10 cents a month each) and their recipient, who must confirm the subscription. @default - no alarms */
    alarms: z
      .strictObject({
        email: z.email().optional(),
        /**
         * An existing topic. Its policy must allow CloudWatch to publish, and with `dailyUsd` AWS Budgets too. @default
         * - the stacks create a topic
         */
        topicArn: form(/^arn:aws[\w-]*:sns:[\w-]+:\d{12}:[\w-]+$/, 'must be the ARN of a topic').optional(),
        /** Daily cost in USD, of the whole account, above which an alert is sent. @default - costs are not monitored */
        dailyUsd: z.number().positive().optional(),
      })
      .refine(({ email, topicArn }) => email === undefined || topicArn === undefined, {
        path: ['email'],
        error: 'must not be set together with `topicArn`: subscribe to your own topic yourself',
      })
      .optional(),
    /**
     * Whether the stacks set the role with which API Gateway writes logs. An account has one per Region, for all its
     * APIs.
     */
    setsLoggingRole: z.boolean().default(true),
    /**
     * Sender of invitations: an address that is verified in SES, itself or through its domain. @default - no e-mail is
     * sent
     */
    mailFrom: z.email().optional(),
    /**
     * Sells credits through Stripe (docs/billing.md). The operator creates the secret, JSON with the members `key` and
     * `webhook_secret`; no template contains its value. @default - users cannot buy credits
     */
    stripe: secret().optional(),
    /**
     * Allows the operator to set plans and grant credits over the API, too (docs/billing.md). The operator creates the
     * secret, whose text is the key. @default - only by commands
     */
    operator: secret().optional(),
    /**
     * Sign-in with an OpenID provider (docs/sign-in.md). The operator creates the secret, whose text is the platform's
     * client secret at the provider. @default - only API keys and links
     */
    oidc: secret()
      .extend({
        issuer: z.url({ protocol: /^https$/ }),
        clientId: z.string().min(1),
        /** E-mail domains whose users may sign in. @default - any */
        domains: z.array(z.hostname()).default([]),
      })
      .optional(),
    /**
     * TCP ports that manifests may name in `egress` (docs/egress.md). The networks of sandboxes and services open them
     * to all addresses, in addition to 443. @default - none
     */
    egressPorts: ports(20).default([]),
    /**
     * Ranges of private addresses that `egress` of manifests may lead to, such as `10.20.0.0/16`. Routes to them are
     * yours. @default - public addresses only
     */
    egressPrivateRanges: z
      .array(
        z.string().superRefine((range, context) => {
          const message = privateRangeProblem(range);
          if (message !== undefined) context.addIssue({ code: 'custom', message });
        }),
      )
      .max(20)
      .default([]),
    /** Other settings of the platform, such as its plans: `docs/settings.md`. */
    settings: z
      .record(z.string().startsWith('PLATFORM_'), z.string())
      .refine(({ PLATFORM_MODELS: place = 'https://' }) => /^(https:\/\/|s3:\/\/[\w.-]+\/[^*?]+$)/.test(place), {
        path: ['PLATFORM_MODELS'],
        error: 'must be https://... or s3://bucket/key',
      })
      .superRefine(({ PLATFORM_TRANSPORTS: text, ...others }, context) => {
        for (const [name, member] of Object.entries(SECRETS)) {
          if (!(name in others)) continue;
          const message = `must not be in a template: create a secret in Secrets Manager and set ${member}.secretName to its name`;
          context.addIssue({ code: 'custom', path: [name], message });
        }
        const { error } = transportsSchema().optional().safeParse(text);
        for (const { message } of error?.issues ?? []) {
          context.addIssue({ code: 'custom', path: ['PLATFORM_TRANSPORTS'], message });
        }
      })
      .default({}),
  })
  .superRefine(({ access, domain, services, web }, context) => {
    const refuse = (path: string[], message: string) => context.addIssue({ code: 'custom', path, message });
    if (access.vpcEndpointIds && domain) {
      refuse(['domain'], 'cannot be used with a private API (access.vpcEndpointIds): set `baseUrl` to your own proxy');
    }
    if (domain && web.kind !== 'off' && !web.domain && !domain.mtls) {
      refuse(['web'], 'must have its own `domain` beside the domain of the API, or be off: links and sign-in use it');
    }
    if (access.vpcEndpointIds || access.ranges || domain?.mtls) {
      const closed = 'over the internet, which `access` or `domain.mtls` blocks';
      if (services.kind !== 'off') refuse(['services'], `must be off: their instances call the API ${closed}`);
      if (web.kind !== 'off') refuse(['web'], `must be off: CloudFront calls the API ${closed}`);
    }
  });

/**
 * Additional members of a stage file for the app around the construct, which the CDK configures in its own ways
 * (docs/cdk.md).
 */
const stageFileSchema = platformSchema.safeExtend({
  /** Qualifier with which the account was bootstrapped (docs/deploy.md). @default - the CDK's own, hnb659fds */
  bootstrapQualifier: z
    .string()
    .regex(/^[a-z0-9]{1,10}$/, 'must be at most 10 lower-case letters and digits')
    .optional(),
  /** Name of the policy that the account requires as permissions boundary of every role. @default - none */
  permissionsBoundary: z
    .string()
    .regex(/^[\w+=,.@-]{1,128}$/, 'must be the name of a policy, not its ARN')
    .optional(),
});

export type Stage = z.output<typeof platformSchema>;
export type StageFile = z.output<typeof stageFileSchema>;
export type MicrovmSettings = Extract<Stage['sandbox'], { kind: 'microvm' }>;
export type FargateSettings = Extract<Stage['sandbox'], { kind: 'fargate' }>;
export type ProgramSettings = NonNullable<FargateSettings['lambda']>;
export type WebSettings = Exclude<Stage['web'], { kind: 'off' }>;
export type CanarySettings = Exclude<Stage['release'], { kind: 'at-once' }>;
export type ServicesSettings = Exclude<Stage['services'], { kind: 'off' }>;

/** Props of `AgentPlatform`. */
export type AgentPlatformProps = z.input<typeof platformSchema>;

/** Validates the props of the construct. Throws one error that names every invalid member. */
export const checkedProps = (props: AgentPlatformProps): Stage => checked('platform', platformSchema, props);

/** Validates the export of a file in `stages/`. Throws one error that names every invalid member. */
export const defineStage = (stage: z.input<typeof stageFileSchema>): StageFile =>
  checked('stage', stageFileSchema, stage);

function checked<Schema extends z.ZodType>(what: string, schema: Schema, value: { name: string }): z.output<Schema> {
  const { data, error } = schema.safeParse(value);
  if (error) throw new Error(`${what} "${value.name}" is invalid:\n${z.prettifyError(error)}`);
  return data as z.output<Schema>;
}

const STAGES = join(import.meta.dirname, '../stages');

/** Loads a stage from its file in `stages/`. Throws if the file does not exist. */
export async function loadStage(name: string): Promise<StageFile> {
  const names = readdirSync(STAGES).flatMap((file) => (file.endsWith('.ts') ? basename(file, '.ts') : []));
  if (!names.includes(name)) throw new Error(`there is no stage "${name}", only ${names.join(', ')}: see stages/`);
  const { stage }: { stage: StageFile } = await import(join(STAGES, `${name}.ts`));
  return stage;
}

/**
 * Returns the prefix of physical names. Settings and policies refer to tables, bucket and secrets by name, so stacks
 * export no values to each other: an export cannot be changed while it is in use. The exceptions are the id of the API
 * ({@link apiExportOf}), which AWS chooses, and CloudFront's token ({@link frontTokenExportOf}): they never change
 * while the API exists.
 */
export const platformNameOf = ({ namePrefix, name }: Stage): string => `${namePrefix}-${name}`;
/** Returns the same prefix as a path, for log groups, vaults and metrics. */
export const platformPathOf = ({ namePrefix, name }: Stage): string => `${namePrefix}/${name}`;
export const tablePrefixOf = (stage: Stage): string => `${platformNameOf(stage)}-`;
/** Returns the globally unique name of the bucket, in `Fn::Sub` notation. */
export const bucketNameOf = (stage: Stage): string => `${platformNameOf(stage)}-\${AWS::AccountId}-\${AWS::Region}`;
export const secretPrefixOf = (stage: Stage): string => platformPathOf(stage);
/** Alias of the KMS key that seals data keys, in a stage without `keyArn`. */
export const dataKeyAliasOf = (stage: Stage): string => `alias/${platformNameOf(stage)}-data-keys`;
/** CloudWatch namespace of metrics from log lines. */
export const metricNamespaceOf = (stage: Stage): string => platformPathOf(stage);
/** Names for the EventBridge schedules of the platform's timers. */
export const timerNamesOf = (stage: Stage) => ({
  group: platformNameOf(stage),
  queue: `${platformNameOf(stage)}-fires`,
  deadQueue: `${platformNameOf(stage)}-fires-dead`,
  /** Roles are global in an account, so the name contains the Region; in `Fn::Sub` notation. */
  role: `${platformNameOf(stage)}-timers-\${AWS::Region}`,
});
export const functionNameOf = (stage: Stage, fn: string): string => `${platformNameOf(stage)}-${fn}`;
export const microvmImageNameOf = (stage: Stage): string => `${platformNameOf(stage)}-sandbox`;
/** Name of the repository of the runner's image; with `-image`, of the project that builds it. */
export const runnerImageNameOf = (stage: Stage, name: 'sandbox' | 'programs' | 'services'): string =>
  `${platformNameOf(stage)}-${name}`;
/** ARN of the MicroVM image, in `Fn::Sub` notation. */
export const microvmImageArnOf = (stage: Stage): string =>
  `arn:\${AWS::Partition}:lambda:\${AWS::Region}:\${AWS::AccountId}:microvm-image:${microvmImageNameOf(stage)}`;
/** ARN of an AWS-managed network connector of MicroVMs, in `Fn::Sub` notation. */
export const managedConnectorOf = (name: 'INTERNET_EGRESS' | 'HTTP_INGRESS'): string =>
  `arn:\${AWS::Partition}:lambda:\${AWS::Region}:aws:network-connector:aws-network-connector:${name}`;
/**
 * Export of the API's id, from which the services stack builds the API's address. Always exported, so never withdrawn
 * while in use.
 */
export const apiExportOf = (stage: Stage): string => `${platformNameOf(stage)}-api-id`;
/** Export of CloudFront's token for the functions, which CloudFront's stack needs. Always exported, too. */
export const frontTokenExportOf = (stage: Stage): string => `${platformNameOf(stage)}-front-token`;
/** Names for always-on services. Resources created at run time have the service's id at the end. */
export const serviceNamesOf = (stage: Stage) => ({
  cluster: `${platformNameOf(stage)}-services`,
  familyPrefix: `${platformNameOf(stage)}-svc-`,
  logGroupPrefix: `/${platformPathOf(stage)}/services/`,
  /** Dead-letter queue of events and invocations that the keeper could not handle. */
  deadQueue: `${platformNameOf(stage)}-services-dead`,
});
