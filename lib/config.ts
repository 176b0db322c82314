import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import * as z from 'zod';
import { BACKGROUND_FUNCTIONS } from '#core/api/background.ts';
import { transportsSchema } from '#core/base/transports.ts';
import { FUNCTION_NAMES } from '#core/http/route.ts';

/** Retention times that CloudWatch Logs offers, in days: docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html. */
const RETENTION_DAYS = [
  1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
] as const;

/** A text of this form, or a token of the CDK, whose value only the deployment knows: that of a resource in the same app. */
const form = (pattern: RegExp, message: string) =>
  z.string().refine((value) => value.includes('${Token[') || pattern.test(value), message);

/** An Availability Zone by its name. */
const zone = () => form(/^[a-z]{2}(-[a-z]+)+-\d[a-z]$/, 'must be a zone such as us-east-1a');

/** A certificate of AWS Certificate Manager. @param region - @default - that of the stacks */
const certificateArn = (region?: string) =>
  form(
    new RegExp(`^arn:aws[\\w-]*:acm:${region ?? '[\\w-]+'}:\\d{12}:certificate/[\\w-]+$`),
    `must be the ARN of a certificate${region ? ` of ${region}` : ''}`,
  );

const vpcId = () => form(/^vpc-[\da-f]{8,17}$/, 'must be the id of a VPC, such as vpc-0123456789abcdef0');
const subnetIds = () =>
  z.array(form(/^subnet-[\da-f]{8,17}$/, 'must be the id of a subnet, such as subnet-0123456789abcdef0')).min(1);

/** Addresses of a network that the stacks make: as large as its parts need, and private (RFC 1918). */
const cidr = (fallback: string) =>
  z
    .cidrv4()
    .regex(/^(10\.|172\.(1[6-9]|2\d|3[01])\.|192\.168\.).*\/(1[6-9]|20)$/, 'must be a private network of /16 to /20')
    .default(fallback);

const pinnedImage = () =>
  form(/^[\w.-]+(:\d+)?\/[\w./-]+(:[\w.-]+)?@sha256:[\da-f]{64}$/, 'must name its digest: registry/name@sha256:…');

const port = () => z.int().min(1).max(65_535);

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
    /** Memory of one instance: the app's own (`PLATFORM_SANDBOX_MEMORY_MB`), and about 150 MB for the runner beside it. */
    memoryMb: z.int().default(1024),
    /** Load balancers that ECS may make, each for 25 services; they cost by the hour. Without effect with a `domain`. */
    maxAlbs: z.int().min(1).max(10).default(4),
    /** TCP ports that apps may connect to at any public address, beside 443, which the runner needs. */
    outboundPorts: z
      .array(z.union([port(), z.strictObject({ from: port(), to: port() })]))
      .max(50)
      .default([80]),
    /** Availability Zones of the instances, two at least. @default - two that AWS chooses */
    zones: z.array(zone()).min(2).optional(),
    /** Addresses of the network. */
    cidr: cidr('10.65.0.0/20'),
    /** How instances reach the internet: each by a public address of its own, or from private subnets by NAT gateways (one a zone). */
    egress: z.enum(['public', 'nat']).default('public'),
    /**
     * Services get names below a domain of yours, by a load balancer of the stage's own. Needed in Regions without ECS
     * gateways. @default - each service gets a host name of an ECS gateway
     */
    domain: z
      .strictObject({
        name: z.hostname(),
        /** Of a certificate for `*.<name>`. */
        certificateArn: certificateArn(),
        /** Hosted zone in Route 53 that the stacks write the wildcard record into. @default - you write it */
        hostedZoneId: z
          .string()
          .regex(/^[A-Z0-9]{1,32}$/, 'must be the id of a hosted zone, such as Z0123456789ABC')
          .optional(),
      })
      .optional(),
  })
  .superRefine(({ cpu, memoryMb, outboundPorts }, context) => {
    const { min: least, max: most, step } = FARGATE_MEMORY[cpu]!;
    if (memoryMb < least || memoryMb > most || memoryMb % step !== 0) {
      const message = `Fargate offers ${least} to ${most} MB in steps of ${step} for ${cpu} CPU units`;
      context.addIssue({ code: 'custom', path: ['memoryMb'], message });
    }
    outboundPorts.forEach((each, index) => {
      if (typeof each === 'number' || each.from <= each.to) return;
      context.addIssue({ code: 'custom', path: ['outboundPorts', index], message: '`from` must not be above `to`' });
    });
  });

const webOn = z.strictObject({
  kind: z.literal('on').optional(),
  /** A name of yours. @default - one of CloudFront's */
  domain: z
    .strictObject({
      name: z.hostname(),
      /** CloudFront takes certificates of one Region alone. */
      certificateArn: certificateArn('us-east-1'),
    })
    .optional(),
});

/** A secret that the operator makes: no template holds its value. */
const secret = () =>
  z.strictObject({
    secretName: z.string().regex(/^[\w/+=.@-]{1,500}$/, 'must be the name of a secret in Secrets Manager, not its ARN'),
  });

/** Settings of the local host that are secrets -> the member that names one instead. */
const SECRETS = {
  PLATFORM_STRIPE_KEY: 'stripe',
  PLATFORM_STRIPE_WEBHOOK_SECRET: 'stripe',
  PLATFORM_OPERATOR_KEY: 'operator',
  PLATFORM_OIDC_CLIENT_SECRET: 'oidc',
};

/** What the construct takes. */
const platformSchema = z
  .strictObject({
    /** Part of every physical name, so that two stages can share an account. */
    name: z.string().regex(/^[a-z][a-z0-9]{0,11}$/, 'must be 1 to 12 lower-case letters and digits, a letter first'),
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
    /** Path of all roles, where the account demands one. Choose it before the first deployment. */
    rolePath: z
      .string()
      .max(512)
      .regex(/^\/([\w+=,.@-]+\/)*$/, 'must begin and end with a slash, such as /agents/')
      .default('/'),
    /**
     * A symmetric key of KMS in the same Region that encrypts tables, bucket and vaults. Its policy must let IAM policies of the account
     * allow its use, as policies of new keys do. Choose it before the first deployment: vaults that exist keep their key.
     * @default - keys of AWS
     */
    keyArn: form(
      /^arn:aws[\w-]*:kms:[\w-]+:\d{12}:key\/[\w-]+$/,
      'must be the ARN of a key, not of an alias',
    ).optional(),
    logLevel: z.enum(['debug', 'info', 'warn', 'error']),
    logRetentionDays: z.literal(RETENTION_DAYS),
    /** Days that the record of a run is kept. */
    runRetentionDays: z.int().positive(),
    /** Limit for all callers together; requests above it are answered 429. */
    throttle: z.strictObject({ requestsPerSecond: z.int().positive(), burst: z.int().positive() }),
    /** A custom domain, and the ARN of its certificate in AWS Certificate Manager, in the Region of the stacks. */
    domain: z
      .strictObject({
        name: z.hostname(),
        certificateArn: certificateArn(),
        /**
         * Clients must show a certificate that one of these authorities signed: a file of certificates in PEM, as s3://bucket/key, and its
         * version. The address of AWS is then closed. @default - clients show no certificate
         */
        mtls: z
          .strictObject({
            truststore: z.string().regex(/^s3:\/\/[\w.-]+\/.+$/, 'must be s3://bucket/key'),
            version: z.string().optional(),
          })
          .optional(),
      })
      .optional(),
    /** Who reaches the API. @default - everybody; what a caller may do is a matter of keys */
    access: z
      .strictObject({
        /** The API is private: only these interface endpoints for `execute-api` lead to it. */
        vpcEndpointIds: z
          .array(form(/^vpce-[\da-f]{8,17}$/, 'must be the id of an endpoint, such as vpce-0123456789abcdef0'))
          .min(1)
          .optional(),
        /** Callers' addresses; of the network of the endpoint, where the API is private. */
        ranges: z
          .array(z.union([z.cidrv4(), z.cidrv6()]))
          .min(1)
          .optional(),
      })
      .prefault({}),
    /** Executions at once, of single functions: docs.aws.amazon.com/lambda/latest/dg/lambda-concurrency.html. */
    concurrency: z
      .strictObject({
        /** Set aside in the account, and at the same time the most that the function may have. */
        reserved: z.partialRecord(z.enum([...FUNCTION_NAMES, ...BACKGROUND_FUNCTIONS]), z.int().min(1)).default({}),
        /** Kept started, which costs by the hour. Only functions that serve requests. */
        provisioned: z.partialRecord(z.enum(FUNCTION_NAMES), z.int().min(1)).default({}),
      })
      .superRefine(({ reserved, provisioned }, context) => {
        for (const fn of FUNCTION_NAMES) {
          const [most, kept] = [reserved[fn], provisioned[fn]];
          if (most === undefined || kept === undefined || most >= 2 * kept) continue;
          const message = `must be at least twice what is provisioned (${2 * kept}): a deployment starts the new version beside the old one`;
          context.addIssue({ code: 'custom', path: ['reserved', fn], message });
        }
      })
      .prefault({}),
    /** How the functions of a deployment take over requests, all of them together (docs/deploy.md#upgrades-and-rollback). */
    release: z
      .discriminatedUnion('kind', [
        z.strictObject({ kind: z.literal('at-once') }),
        z.strictObject({
          kind: z.literal('canary').optional(),
          /** Percent of the requests that go to the new versions first. */
          percent: z.number().min(1).max(50).default(10),
          /** For how long, before all others follow. An alarm meanwhile takes the deployment back. */
          minutes: z.int().min(1).max(12).default(5),
        }),
      ])
      .prefault({}),
    /** Where programs run: tasks on Fargate, Lambda MicroVMs, or nowhere (docs/sandbox.md says when to choose which). */
    sandbox: z
      .discriminatedUnion('kind', [
        z.strictObject({ kind: z.literal('none') }),
        z.strictObject({
          kind: z.literal('fargate'),
          /** Idle tasks kept ready at all times, which cost money. */
          idle: z.int().min(0).max(200).default(0),
          /**
           * Whether a task serves further runs of the `same` kind: one workspace, agent version, set of grants and tenant (docs/sandbox.md).
           * Or is used once.
           */
          reuse: z.enum(['same', 'never']).default('same'),
          /**
           * Whether runs that nobody waits for, and that may be `retried` by their manifest, have tasks of Fargate Spot, which cost less and
           * which AWS may take away (docs/sandbox.md#fargate-spot).
           */
          spot: z.enum(['retried', 'never']).default('retried'),
          /** Maximum number of tasks, idle or not: bounds the bill. */
          max: z.int().min(1).max(200).default(20),
          /** CPU of one task, in 1,024ths of a processor. */
          cpu: z.literal([256, 512, 1024, 2048, 4096]).default(512),
          /** Memory of one task; installations may use 2 GB. Fargate allows certain sizes for each `cpu`. */
          memoryMb: z.int().multipleOf(512).min(512).max(30_720).default(2048),
          /** Availability Zones of the tasks. Some, such as `us-east-1e`, lack services. @default - two that AWS chooses */
          zones: z.array(zone()).min(1).optional(),
          /** Days after which the image is built again, with the updates of its base images and packages until then. */
          rebuildDays: z.int().min(1).max(90).default(7),
          /** Addresses of the network. */
          cidr: cidr('10.64.0.0/20'),
          /**
           * How tasks reach the internet: each by a public address of its own, from private subnets by NAT gateways (one a zone), or not at
           * all: from isolated subnets they reach S3, and the image and the log by interface endpoints.
           */
          egress: z.enum(['public', 'nat', 'endpoints']).default('public'),
          /**
           * A network of yours instead, with the ways out that it has; tasks get no public address. Programs may connect to port 443 of
           * whatever else is in it. @default - the stacks make a network
           */
          vpc: z
            .strictObject({
              id: vpcId(),
              /** Of the tasks. They need ways to ECR, S3 and CloudWatch Logs, and programs to what they call. */
              taskSubnetIds: subnetIds(),
              /** Of the function that speaks to tasks. It needs ways to DynamoDB and S3. */
              functionSubnetIds: subnetIds(),
            })
            .optional(),
        }),
        z.strictObject({
          kind: z.literal('microvm'),
          /**
           * Memory that each VM is billed for as long as it runs, with one processor per 2 GB. A VM has four times as much of both; what it
           * uses of that is billed on top.
           */
          memoryMb: z.literal([512, 1024, 2048, 4096, 8192]).default(512),
          /** How many VMs are started in a second: the account's quota of `RunMicrovm`, or less if others use it. Further calls wait. */
          launchesPerSecond: z.int().min(1).max(100).default(5),
          /** Version of AWS's base image al2023-1; `aws lambda-microvms list-managed-microvm-image-versions` lists them. */
          baseImageVersion: z.string().default('1'),
        }),
      ])
      .prefault({ kind: 'none' }),
    /**
     * What the runner's image is built from, for sandboxes on Fargate and services: images by their digests, Debian 12 both, which then only
     * you update. @default - the newest patch of Node.js 24 and of Python 3.12 at each build
     */
    bases: z.strictObject({ node: pinnedImage().optional(), python: pinnedImage().optional() }).prefault({}),
    /** Always-on services: instances on Fargate, and how they are reached; or none (docs/services.md). */
    services: z.discriminatedUnion('kind', [z.strictObject({ kind: z.literal('off') }), servicesOn]).prefault({}),
    /** The dashboard, on one address with the API: CloudFront in front of both (docs/deploy.md#the-dashboard), or none. */
    web: z.discriminatedUnion('kind', [z.strictObject({ kind: z.literal('off') }), webOn]).prefault({}),
    /** Where people reach the platform through a proxy. @default - `web`, or else `domain`, or else API Gateway's own address */
    baseUrl: z.url().optional(),
    /** A web ACL in front of the API (about 7 USD a month, 0.60 per million requests) with a limit per address. */
    firewall: z.strictObject({ requestsPerFiveMinutes: z.int().min(10).max(2_000_000_000) }).optional(),
    /** Alarms (10 cents a month each), and who receives them, after confirming the subscription. @default - no alarms */
    alarms: z
      .strictObject({
        email: z.email().optional(),
        /** A topic of yours. Its policy must let CloudWatch publish, and with `dailyUsd` AWS Budgets. @default - the stacks make a topic */
        topicArn: form(/^arn:aws[\w-]*:sns:[\w-]+:\d{12}:[\w-]+$/, 'must be the ARN of a topic').optional(),
        /** Cost of a day above which to tell, of the whole account and in USD. @default - costs are not watched */
        dailyUsd: z.number().positive().optional(),
      })
      .refine(({ email, topicArn }) => email === undefined || topicArn === undefined, {
        path: ['email'],
        error: 'must be a subscription of your own topic: take `topicArn` or `email`',
      })
      .optional(),
    /** Whether the stacks set the role with which API Gateway writes logs. An account has one in a Region, for all its APIs. */
    setsLoggingRole: z.boolean().default(true),
    /** Sender of invitations: an address that SES has verified, itself or its domain. @default - no e-mail is sent */
    mailFrom: z.email().optional(),
    /**
     * Credits are bought by Stripe (docs/billing.md). The operator makes the secret, JSON with the members `key` and
     * `webhook_secret`; no template holds its value. @default - users cannot buy credits
     */
    stripe: secret().optional(),
    /**
     * Plans and credits are given over the API, too (docs/billing.md). The operator makes the secret, whose text is the key.
     * @default - only by commands
     */
    operator: secret().optional(),
    /**
     * People sign in with an OpenID provider (docs/sign-in.md). The operator makes the secret, whose text is the platform's client
     * secret there. @default - with API keys and links alone
     */
    oidc: secret()
      .extend({
        issuer: z.url({ protocol: /^https$/ }),
        clientId: z.string().min(1),
        /** Domains of e-mail addresses that may sign in. @default - any */
        domains: z.array(z.hostname()).default([]),
      })
      .optional(),
    /** Further settings of the platform, such as its plans: `docs/settings.md`. */
    settings: z
      .record(z.string().startsWith('PLATFORM_'), z.string())
      .refine(({ PLATFORM_MODELS: place = 'https://' }) => /^(https:\/\/|s3:\/\/[\w.-]+\/[^*?]+$)/.test(place), {
        path: ['PLATFORM_MODELS'],
        error: 'must be https://... or s3://bucket/key',
      })
      .superRefine(({ PLATFORM_TRANSPORTS: text, ...others }, context) => {
        for (const [name, member] of Object.entries(SECRETS)) {
          if (!(name in others)) continue;
          const message = `must not be in a template: make a secret in Secrets Manager and name it as ${member}.secretName`;
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
      refuse(['domain'], 'cannot lead to a private API (access.vpcEndpointIds): name a proxy of yours with `baseUrl`');
    }
    if (domain && web.kind !== 'off' && !web.domain && !domain.mtls) {
      refuse(
        ['web'],
        'must have a `domain` of its own beside that of the API, or be off: links and sign-in lead there',
      );
    }
    if (access.vpcEndpointIds || access.ranges || domain?.mtls) {
      const closed = 'over the internet, which `access` or `domain.mtls` closes';
      if (services.kind !== 'off') refuse(['services'], `must be off: their instances ask the API ${closed}`);
      if (web.kind !== 'off') refuse(['web'], `must be off: CloudFront asks the API ${closed}`);
    }
  });

/** What a stage file adds for the app around the construct: the CDK has a way of its own for each (docs/cdk.md). */
const stageFileSchema = platformSchema.safeExtend({
  /** Qualifier that the account was bootstrapped with (docs/deploy.md). @default - that of the CDK, hnb659fds */
  bootstrapQualifier: z
    .string()
    .regex(/^[a-z0-9]{1,10}$/, 'must be at most 10 lower-case letters and digits')
    .optional(),
  /** Name of a policy that the account demands as permissions boundary of every role. @default - none */
  permissionsBoundary: z
    .string()
    .regex(/^[\w+=,.@-]{1,128}$/, 'must be the name of a policy, not its ARN')
    .optional(),
});

export type Stage = z.output<typeof platformSchema>;
export type StageFile = z.output<typeof stageFileSchema>;
export type MicrovmSettings = Extract<Stage['sandbox'], { kind: 'microvm' }>;
export type FargateSettings = Extract<Stage['sandbox'], { kind: 'fargate' }>;
export type WebSettings = Exclude<Stage['web'], { kind: 'off' }>;
export type CanarySettings = Exclude<Stage['release'], { kind: 'at-once' }>;
export type ServicesSettings = Exclude<Stage['services'], { kind: 'off' }>;

/** Props of `AgentPlatform`. */
export type AgentPlatformProps = z.input<typeof platformSchema>;

/** Checks the props of the construct. Throws one error that names every wrong member. */
export const checkedProps = (props: AgentPlatformProps): Stage => checked('platform', platformSchema, props);

/** Checks the export of a file of `stages/`. Throws one error that names every wrong member. */
export const defineStage = (stage: z.input<typeof stageFileSchema>): StageFile =>
  checked('stage', stageFileSchema, stage);

function checked<Schema extends z.ZodType>(what: string, schema: Schema, value: { name: string }): z.output<Schema> {
  const { data, error } = schema.safeParse(value);
  if (error) throw new Error(`${what} "${value.name}" is wrong:\n${z.prettifyError(error)}`);
  return data as z.output<Schema>;
}

const STAGES = join(import.meta.dirname, '../stages');

/** Loads a stage from its file in `stages/`. Throws if there is no such file. */
export async function loadStage(name: string): Promise<StageFile> {
  const names = readdirSync(STAGES).flatMap((file) => (file.endsWith('.ts') ? basename(file, '.ts') : []));
  if (!names.includes(name)) throw new Error(`there is no stage "${name}", only ${names.join(', ')}: see stages/`);
  const { stage }: { stage: StageFile } = await import(join(STAGES, `${name}.ts`));
  return stage;
}

/**
 * Physical names. Settings and policies refer to tables, bucket and secrets by name, so no stack exports values to another:
 * an export cannot be changed while it is in use. The exceptions are the id of the API ({@link apiExportOf}), which AWS
 * chooses, and what CloudFront proves itself with ({@link frontTokenExportOf}): they never change as long as there is the API.
 */
export const platformNameOf = ({ namePrefix, name }: Stage): string => `${namePrefix}-${name}`;
/** The same as a path: of log groups, vaults and metrics. */
export const platformPathOf = ({ namePrefix, name }: Stage): string => `${namePrefix}/${name}`;
export const tablePrefixOf = (stage: Stage): string => `${platformNameOf(stage)}-`;
/** Unique worldwide; in `Fn::Sub` notation. */
export const bucketNameOf = (stage: Stage): string => `${platformNameOf(stage)}-\${AWS::AccountId}-\${AWS::Region}`;
export const secretPrefixOf = (stage: Stage): string => platformPathOf(stage);
/** CloudWatch namespace of metrics from log lines. */
export const metricNamespaceOf = (stage: Stage): string => platformPathOf(stage);
/** Names around the EventBridge schedules of the platform's timers. */
export const timerNamesOf = (stage: Stage) => ({
  group: platformNameOf(stage),
  queue: `${platformNameOf(stage)}-fires`,
  deadQueue: `${platformNameOf(stage)}-fires-dead`,
  /** Of the whole account, so it names its Region; in `Fn::Sub` notation. */
  role: `${platformNameOf(stage)}-timers-\${AWS::Region}`,
});
export const functionNameOf = (stage: Stage, fn: string): string => `${platformNameOf(stage)}-${fn}`;
export const microvmImageNameOf = (stage: Stage): string => `${platformNameOf(stage)}-sandbox`;
/** The repository of the runner's image, and with `-image` the project that builds it. */
export const runnerImageNameOf = (stage: Stage, name: 'sandbox' | 'services'): string =>
  `${platformNameOf(stage)}-${name}`;
/** In `Fn::Sub` notation. */
export const microvmImageArnOf = (stage: Stage): string =>
  `arn:\${AWS::Partition}:lambda:\${AWS::Region}:\${AWS::AccountId}:microvm-image:${microvmImageNameOf(stage)}`;
/** ARN of a network connector of MicroVMs that AWS manages; in `Fn::Sub` notation. */
export const managedConnectorOf = (name: 'INTERNET_EGRESS' | 'HTTP_INGRESS'): string =>
  `arn:\${AWS::Partition}:lambda:\${AWS::Region}:aws:network-connector:aws-network-connector:${name}`;
/** Export of the API's id: the stack of the services builds the API's address from it. Exported always, so never withdrawn while in use. */
export const apiExportOf = (stage: Stage): string => `${platformNameOf(stage)}-api-id`;
/** Export of what CloudFront proves itself with to the functions: CloudFront's stack needs it. Exported always, too. */
export const frontTokenExportOf = (stage: Stage): string => `${platformNameOf(stage)}-front-token`;
/** Names around always-on services. What is made for each of them at run time has its id at the end. */
export const serviceNamesOf = (stage: Stage) => ({
  cluster: `${platformNameOf(stage)}-services`,
  familyPrefix: `${platformNameOf(stage)}-svc-`,
  logGroupPrefix: `/${platformPathOf(stage)}/services/`,
  /** Events and calls that the keeper could not handle. */
  deadQueue: `${platformNameOf(stage)}-services-dead`,
});
