import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import * as z from 'zod';
import { BACKGROUND_FUNCTIONS } from '#core/api/background.ts';
import { type PortRange, portsText } from '#core/base/port-ranges.ts';
import { privateRangeProblem } from '#core/base/private-ranges.ts';
import { SAMPLERS } from '#core/base/samplers.ts';
import { transportsSchema } from '#core/base/transports.ts';
import { FUNCTION_NAMES } from '#core/http/route.ts';
import { concurrencyProblem, environmentProblem, fargateSizeProblem, MAX_TASKS, networkProblem } from './limits.ts';
import type { AgentPlatformProps, LogRetentionDays, StageProps } from './props.ts';

const RETENTION_DAYS = [
  1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
] as const satisfies readonly LogRetentionDays[];

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

const hostedZoneId = () =>
  z.string().regex(/^[A-Z0-9]{1,32}$/, 'must be the id of a hosted zone, such as Z0123456789ABC');

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
export const memberSettings = ({
  cell,
  egressPorts,
  egressPrivateRanges,
}: Pick<Stage, 'cell' | 'egressPorts' | 'egressPrivateRanges'>): Record<string, string> => ({
  PLATFORM_CELL: cell,
  PLATFORM_EGRESS_PORTS: egressPorts.length === 0 ? 'none' : portsText(openPorts(egressPorts)),
  ...(egressPrivateRanges.length > 0 && { PLATFORM_EGRESS_PRIVATE_RANGES: egressPrivateRanges.join(',') }),
});

/** Refuses sizes that Fargate lacks. */
function fargateSize({ cpu, memoryMb }: { cpu: number; memoryMb: number }, context: z.RefinementCtx): void {
  const message = fargateSizeProblem(cpu, memoryMb);
  if (message !== undefined) context.addIssue({ code: 'custom', path: ['memoryMb'], message });
}

const servicesOn = z
  .strictObject({
    kind: z.literal('on').optional(),
    cpu: z.literal([256, 512, 1024, 2048, 4096]).default(256),
    memoryMb: z.int().default(1024),
    maxAlbs: z.int().min(1).max(10).default(4),
    outboundPorts: ports(50).default([80]),
    zones: z.array(zone()).min(2).optional(),
    cidr: cidr('10.65.0.0/20'),
    egress: z.enum(['public', 'nat']).default('public'),
    vpc: z
      .strictObject({ id: vpcId(), instanceSubnetIds: subnetIds().min(2), balancerSubnetIds: subnetIds().min(2) })
      .optional(),
    domain: z
      .strictObject({
        name: z.hostname(),
        certificateArn: certificateArn(),
        hostedZoneId: hostedZoneId().optional(),
      })
      .optional(),
  })
  .superRefine(fargateSize);

const webOn = z.strictObject({
  kind: z.literal('on').optional(),
  domain: z
    .strictObject({
      name: z.hostname(),
      certificateArn: certificateArn('us-east-1'),
      hostedZoneId: hostedZoneId().optional(),
    })
    .optional(),
  webAclArn: form(
    /^arn:aws[\w-]*:wafv2:us-east-1:\d{12}:global\/webacl\/[\w-]+\/[\w-]+$/,
    'must be the ARN of a web ACL with the scope CLOUDFRONT',
  ).optional(),
  countries: z
    .strictObject({
      kind: z.enum(['allow', 'deny']),
      codes: z.array(z.string().regex(/^[A-Z]{2}$/, 'must be a code of two capital letters, such as DE')).min(1),
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
  PLATFORM_A2A_KEY_FILE: 'a2a',
};

/** What a stage must say to run programs in Lambda functions: the promises that these cannot keep (docs/sandbox.md). */
export const PROGRAM_RISKS =
  'A program may read and answer later runs of its own kind, and connect to any public address.';

/** A Lambda function with tenant isolation for runs of one short command, beside the sandbox of everything else. */
const programsInLambda = () =>
  z
    .strictObject({
      acknowledges: z.literal(PROGRAM_RISKS, {
        error: () => `must acknowledge what docs/sandbox.md explains, as "${PROGRAM_RISKS}"`,
      }),
      memoryMb: z.int().min(256).max(10_240).default(640),
      max: z.int().min(1).optional(),
    })
    .optional();

/** Schema of `AgentPlatformProps`, which has the descriptions and limits of all members. */
export const platformSchema = z
  .strictObject({
    name: z
      .string()
      .regex(/^[a-z][a-z0-9]{0,11}$/, 'must be 1 to 12 lower-case letters and digits, starting with a letter'),
    keepsData: z.boolean(),
    cell: z
      .string()
      .regex(/^[a-z]$/, 'must be one letter, a to z')
      .default('a'),
    namePrefix: z
      .string()
      .max(10)
      .regex(
        /^(?!aws|amazon|internal)[a-z][a-z0-9]*(-[a-z0-9]+)*$/,
        'must be lower-case words with hyphens between them, and not begin with aws, amazon or internal',
      )
      .default('platform'),
    rolePath: z
      .string()
      .max(512)
      .regex(/^\/([\w+=,.@-]+\/)*$/, 'must begin and end with a slash, such as /agents/')
      .default('/'),
    keyArn: form(
      /^arn:aws[\w-]*:kms:[\w-]+:\d{12}:key\/[\w-]+$/,
      'must be the ARN of a key, not of an alias',
    ).optional(),
    functionVpc: z
      .strictObject({
        id: vpcId(),
        subnetIds: subnetIds(),
        securityGroupIds: z
          .array(form(/^sg-[\da-f]{8,17}$/, 'must be the id of a security group, such as sg-0123456789abcdef0'))
          .min(1)
          .max(5),
      })
      .optional(),
    accessLogs: z
      .strictObject({
        bucketName: form(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket'),
        prefix: z.string().max(256).optional(),
      })
      .optional(),
    logLevel: z.enum(['debug', 'info', 'warn', 'error']),
    logRetentionDays: z.literal(RETENTION_DAYS),
    secrets: z.enum(['secrets-manager', 'envelope', 'both']).default('secrets-manager'),
    runRetentionDays: z.int().positive(),
    throttle: z.strictObject({ requestsPerSecond: z.int().positive(), burst: z.int().positive() }),
    tables: z
      .strictObject({ maxReadUnits: z.int().positive().optional(), maxWriteUnits: z.int().positive().optional() })
      .prefault({}),
    domain: z
      .strictObject({
        name: z.hostname(),
        certificateArn: certificateArn(),
        hostedZoneId: hostedZoneId().optional(),
        mtls: z
          .strictObject({
            truststore: z.string().regex(/^s3:\/\/[\w.-]+\/.+$/, 'must be s3://bucket/key'),
            version: z.string().optional(),
          })
          .optional(),
      })
      .optional(),
    access: z
      .strictObject({
        vpcEndpointIds: z
          .array(form(/^vpce-[\da-f]{8,17}$/, 'must be the id of an endpoint, such as vpce-0123456789abcdef0'))
          .min(1)
          .optional(),
        ranges: z
          .array(z.union([z.cidrv4(), z.cidrv6()]))
          .min(1)
          .optional(),
      })
      .prefault({}),
    concurrency: z
      .strictObject({
        reserved: z.partialRecord(z.enum([...FUNCTION_NAMES, ...BACKGROUND_FUNCTIONS]), z.int().min(1)).default({}),
        provisioned: z.partialRecord(z.enum(FUNCTION_NAMES), z.int().min(1)).default({}),
      })
      .superRefine(({ reserved, provisioned }, context) => {
        for (const fn of FUNCTION_NAMES) {
          const [most, kept] = [reserved[fn], provisioned[fn]];
          if (most === undefined || kept === undefined || most >= 2 * kept) continue;
          const message = `must be at least twice the provisioned concurrency (${2 * kept}): a deployment starts the new version beside the old one`;
          context.addIssue({ code: 'custom', path: ['reserved', fn], message });
        }
        for (const [kind, executions] of Object.entries({ reserved, provisioned })) {
          const message = concurrencyProblem(executions);
          if (message !== undefined) context.addIssue({ code: 'custom', path: [kind], message });
        }
      })
      .prefault({}),
    /**
     * What serves calls and streams of events: a function each, with one request at a time, or one HTTP server in a Lambda
     * Web Function, whose environments serve many at once (docs/deploy.md#calls-that-wait).
     */
    calls: z.enum(['functions', 'web']).default('functions'),
    release: z
      .discriminatedUnion('kind', [
        z.strictObject({ kind: z.literal('at-once') }),
        z.strictObject({
          kind: z.literal('canary').optional(),
          percent: z.number().min(1).max(50).default(10),
          minutes: z.int().min(1).max(12).default(5),
        }),
      ])
      .prefault({}),
    sandbox: z
      .discriminatedUnion('kind', [
        z.strictObject({ kind: z.literal('none') }),
        z
          .strictObject({
            kind: z.literal('fargate'),
            lambda: programsInLambda(),
            idle: z.int().min(0).max(MAX_TASKS).default(0),
            reuse: z.enum(['same', 'never']).default('same'),
            spot: z.enum(['retried', 'never']).default('retried'),
            max: z.int().min(1).max(MAX_TASKS).default(20),
            cpu: z.literal([256, 512, 1024, 2048, 4096]).default(512),
            memoryMb: z.int().multipleOf(512).min(512).max(30_720).default(2048),
            zones: z.array(zone()).min(1).optional(),
            rebuildDays: z.int().min(1).max(90).default(7),
            cidr: cidr('10.64.0.0/20'),
            egress: z.enum(['public', 'nat', 'endpoints']).default('public'),
            vpc: z
              .strictObject({
                id: vpcId(),
                taskSubnetIds: subnetIds(),
                functionSubnetIds: subnetIds(),
              })
              .optional(),
          })
          .superRefine(fargateSize)
          .superRefine(({ max, zones, cidr, vpc }, context) => {
            const message = vpc ? undefined : networkProblem(max, zones?.length ?? 2, cidr);
            if (message !== undefined) context.addIssue({ code: 'custom', path: ['max'], message });
          }),
        z.strictObject({
          kind: z.literal('microvm'),
          lambda: programsInLambda(),
          memoryMb: z.literal([512, 1024, 2048, 4096, 8192]).default(512),
          launchesPerSecond: z.int().min(1).max(100).default(5),
          baseImageVersion: z.string().default('1'),
        }),
      ])
      .prefault({ kind: 'none' }),
    bases: z.strictObject({ node: pinnedImage().optional(), python: pinnedImage().optional() }).prefault({}),
    services: z.discriminatedUnion('kind', [z.strictObject({ kind: z.literal('off') }), servicesOn]).prefault({}),
    web: z.discriminatedUnion('kind', [z.strictObject({ kind: z.literal('off') }), webOn]).prefault({}),
    baseUrl: z.url().optional(),
    firewall: z.strictObject({ requestsPerFiveMinutes: z.int().min(10).max(2_000_000_000) }).optional(),
    alarms: z
      .strictObject({
        email: z.email().optional(),
        topicArn: form(/^arn:aws[\w-]*:sns:[\w-]+:\d{12}:[\w-]+$/, 'must be the ARN of a topic').optional(),
        dailyUsd: z.number().positive().optional(),
        thresholds: z.record(z.string(), z.number().nonnegative()).optional(),
      })
      .refine(({ email, topicArn }) => email === undefined || topicArn === undefined, {
        path: ['email'],
        error: 'must not be set together with `topicArn`: subscribe to your own topic yourself',
      })
      .optional(),
    setsLoggingRole: z.boolean().default(true),
    mailFrom: z.email().optional(),
    stripe: secret().optional(),
    operator: secret().optional(),
    a2a: secret().optional(),
    oidc: secret()
      .extend({
        issuer: z.url({ protocol: /^https$/ }),
        clientId: z.string().min(1),
        domains: z.array(z.hostname()).default([]),
      })
      .optional(),
    telemetry: secret()
      .partial()
      .extend({
        endpoint: z
          .url({ protocol: /^https?$/ })
          .refine((url) => !/[@?#]/.test(url), 'must have no user, query or fragment: keys belong in the secret'),
        serviceName: z.string().min(1).max(255).default('agent-platform'),
        attributes: z.record(z.string().regex(/^[\w.-]{1,255}$/), z.string().max(1000)).default({}),
        sampler: z.enum(SAMPLERS).default('parentbased_always_on'),
        ratio: z.number().min(0).max(1).default(1),
      })
      .optional(),
    egressPorts: ports(20).default([]),
    egressPrivateRanges: z
      .array(
        z.string().superRefine((range, context) => {
          const message = privateRangeProblem(range);
          if (message !== undefined) context.addIssue({ code: 'custom', message });
        }),
      )
      .max(20)
      .default([]),
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
  .superRefine(({ access, calls, domain, services, web }, context) => {
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
      if (calls === 'web') {
        refuse(
          ['calls'],
          'must be `functions`: a web function is on the internet, and `access` or `domain.mtls` is not',
        );
      }
    }
  })
  .superRefine((stage, context) => {
    const { issuer = '', clientId = '', domains = [] } = stage.oidc ?? {};
    const signIn = {
      PLATFORM_OIDC_ISSUER: issuer,
      PLATFORM_OIDC_CLIENT_ID: clientId,
      PLATFORM_OIDC_DOMAINS: `${domains}`,
    };
    const message = environmentProblem({
      ...stage.settings,
      ...memberSettings(stage),
      ...(stage.oidc && signIn),
      ...(stage.telemetry && { PLATFORM_OPERATOR_TELEMETRY: JSON.stringify(stage.telemetry) }),
    });
    if (message !== undefined) context.addIssue({ code: 'custom', path: ['settings'], message });
  });

/** Schema of `StageProps`. */
export const stageFileSchema = platformSchema.safeExtend({
  bootstrapQualifier: z
    .string()
    .regex(/^[a-z0-9]{1,10}$/, 'must be at most 10 lower-case letters and digits')
    .optional(),
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

/** Validates the props of the construct. Throws one error that names every invalid member. */
export const checkedProps = (props: AgentPlatformProps): Stage => checked('platform', platformSchema, props);

/** Validates the export of a file in `stages/`. Throws one error that names every invalid member. */
export const defineStage = (stage: StageProps): StageFile => checked('stage', stageFileSchema, stage);

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
 * ({@link apiExportOf}), which AWS chooses, CloudFront's token ({@link frontTokenExportOf}), which never change while the
 * API exists, and the stream of a table ({@link sumNamesOf}).
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
/** Names for the sums of ended runs. */
export const sumNamesOf = (stage: Stage) => ({
  deadQueue: `${platformNameOf(stage)}-sums-dead`,
  /** Export of the ARN of the stream of `runs`, which has the time of its creation. It never changes while the table exists. */
  streamExport: `${platformNameOf(stage)}-runs-stream`,
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
