import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import * as z from 'zod';
import { transportsSchema } from '#core/base/transports.ts';

/** Retention times of CloudWatch Logs that a stage may choose, in days. */
const RETENTION_DAYS = [7, 14, 30, 90, 180, 365] as const;

/** An Availability Zone by its name. */
const zone = () => z.string().regex(/^[a-z]{2}(-[a-z]+)+-\d[a-z]$/, 'must be a zone such as us-east-1a');

/** A certificate of AWS Certificate Manager in the Region of the stacks. */
const certificateArn = () =>
  z.string().regex(/^arn:aws[\w-]*:acm:[\w-]+:\d{12}:certificate\/[\w-]+$/, 'must be the ARN of a certificate');

const port = () => z.int().min(1).max(65_535);

/** Memory in MB that Fargate offers for each CPU size: docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-tasks-services.html. */
const FARGATE_MEMORY: {
  readonly [cpu: number]: { readonly least: number; readonly most: number; readonly step: number };
} = {
  256: { least: 512, most: 2048, step: 512 },
  512: { least: 1024, most: 4096, step: 1024 },
  1024: { least: 2048, most: 8192, step: 1024 },
  2048: { least: 4096, most: 16_384, step: 1024 },
  4096: { least: 8192, most: 30_720, step: 1024 },
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
    const { least, most, step } = FARGATE_MEMORY[cpu]!;
    if (memoryMb < least || memoryMb > most || memoryMb % step !== 0) {
      const message = `Fargate offers ${least} to ${most} MB in steps of ${step} for ${cpu} CPU units`;
      context.addIssue({ code: 'custom', path: ['memoryMb'], message });
    }
    outboundPorts.forEach((each, index) => {
      if (typeof each === 'number' || each.from <= each.to) return;
      context.addIssue({ code: 'custom', path: ['outboundPorts', index], message: '`from` must not be above `to`' });
    });
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
const platformSchema = z.strictObject({
  /** Part of every physical name, so that two stages can share an account. */
  name: z.string().regex(/^[a-z][a-z0-9]{0,11}$/, 'must be 1 to 12 lower-case letters and digits, a letter first'),
  /** Whether the data outlives its stack: it is retained, protected against deletion, and restorable for 35 days. */
  keepsData: z.boolean(),
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
    })
    .optional(),
  /** Where programs run: tasks on Fargate, Lambda MicroVMs, or nowhere (docs/sandbox.md says when to choose which). */
  sandbox: z
    .discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('none') }),
      z.strictObject({
        kind: z.literal('fargate'),
        /** Idle tasks kept ready at all times, which cost money. */
        idle: z.int().min(0).max(200).default(0),
        /** Maximum number of tasks, idle or not: bounds the bill. */
        max: z.int().min(1).max(200).default(20),
        /** CPU of one task, in 1,024ths of a processor. */
        cpu: z.literal([256, 512, 1024, 2048, 4096]).default(512),
        /** Memory of one task; installations may use 2 GB. Fargate allows certain sizes for each `cpu`. */
        memoryMb: z.int().multipleOf(512).min(512).max(30_720).default(2048),
        /** Availability Zones of the tasks. Some, such as `us-east-1e`, lack services. @default - two that AWS chooses */
        zones: z.array(zone()).min(1).optional(),
      }),
      z.strictObject({
        kind: z.literal('microvm'),
        /** Memory of one VM, with one processor per 2 GB; installations may use 2 GB. */
        memoryMb: z.literal([1024, 2048, 4096, 8192]).default(2048),
        /** Version of AWS's base image al2023-1; `aws lambda-microvms list-managed-microvm-image-versions` lists them. */
        baseImageVersion: z.string().default('1'),
      }),
    ])
    .prefault({ kind: 'none' }),
  /** Always-on services: instances on Fargate, and how they are reached; or none (docs/services.md). */
  services: z.discriminatedUnion('kind', [z.strictObject({ kind: z.literal('off') }), servicesOn]).prefault({}),
  /** Where clients reach the platform through a proxy. @default - `domain`, or else API Gateway's own address */
  baseUrl: z.url().optional(),
  /** A web ACL in front of the API (about 7 USD a month, 0.60 per million requests) with a limit per address. */
  firewall: z.strictObject({ requestsPerFiveMinutes: z.int().min(10).max(2_000_000_000) }).optional(),
  /** Alarms (10 cents a month each), and who receives them, after confirming the subscription. @default - no alarms */
  alarms: z.strictObject({ email: z.email().optional() }).optional(),
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
});

/** What a stage file adds for the app around the construct: the CDK has a way of its own for each (docs/cdk.md). */
const stageFileSchema = platformSchema.extend({
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
  const names = readdirSync(STAGES).map((file) => basename(file, '.ts'));
  if (!names.includes(name)) throw new Error(`there is no stage "${name}", only ${names.join(', ')}: see stages/`);
  const { stage }: { stage: StageFile } = await import(join(STAGES, `${name}.ts`));
  return stage;
}

/**
 * Physical names. Settings and policies refer to tables, bucket and secrets by name, so no stack exports values to another:
 * an export cannot be changed while it is in use. The exception is the id of the API ({@link apiExportOf}), which AWS
 * chooses, and which never changes as long as there is the API.
 */
export const tablePrefixOf = (stage: Stage): string => `platform-${stage.name}-`;
/** Unique worldwide; in `Fn::Sub` notation. */
export const bucketNameOf = (stage: Stage): string => `platform-${stage.name}-\${AWS::AccountId}-\${AWS::Region}`;
export const secretPrefixOf = (stage: Stage): string => `platform/${stage.name}`;
/** CloudWatch namespace of metrics from log lines. */
export const metricNamespaceOf = (stage: Stage): string => `platform/${stage.name}`;
/** Names around the EventBridge schedules of the platform's timers. */
export const timerNamesOf = ({ name }: Stage) => ({
  group: `platform-${name}`,
  queue: `platform-${name}-fires`,
  deadQueue: `platform-${name}-fires-dead`,
  /** Of the whole account, so it names its Region; in `Fn::Sub` notation. */
  role: `platform-${name}-timers-\${AWS::Region}`,
});
export const functionNameOf = (stage: Stage, fn: string): string => `platform-${stage.name}-${fn}`;
export const microvmImageNameOf = (stage: Stage): string => `platform-${stage.name}-sandbox`;
/** In `Fn::Sub` notation. */
export const microvmImageArnOf = (stage: Stage): string =>
  `arn:\${AWS::Partition}:lambda:\${AWS::Region}:\${AWS::AccountId}:microvm-image:${microvmImageNameOf(stage)}`;
/** ARN of a network connector of MicroVMs that AWS manages; in `Fn::Sub` notation. */
export const managedConnectorOf = (name: 'INTERNET_EGRESS' | 'HTTP_INGRESS'): string =>
  `arn:\${AWS::Partition}:lambda:\${AWS::Region}:aws:network-connector:aws-network-connector:${name}`;
/** Export of the API's id: the stack of the services builds the API's address from it. Exported always, so never withdrawn while in use. */
export const apiExportOf = (stage: Stage): string => `platform-${stage.name}-api-id`;
/** Names around always-on services. What is made for each of them at run time has its id at the end. */
export const serviceNamesOf = ({ name }: Stage) => ({
  cluster: `platform-${name}-services`,
  familyPrefix: `platform-${name}-svc-`,
  logGroupPrefix: `/platform/${name}/services/`,
  /** Events and calls that the keeper could not handle. */
  deadQueue: `platform-${name}-services-dead`,
});
