import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import * as z from 'zod';

/** Retention times that CloudWatch Logs and the stacks offer, in days. */
const RETENTION_DAYS = [7, 14, 30, 90, 180, 365] as const;

const stageSchema = z.strictObject({
  /** Part of every physical name: two stages never meet, not even in one account. */
  name: z.string().regex(/^[a-z][a-z0-9]{0,11}$/, 'must be 1 to 12 lower-case letters and digits, a letter first'),
  /** Whether the data outlives its stack: kept, protected against deletion, restorable to any second of 35 days. */
  keepsData: z.boolean(),
  logLevel: z.enum(['debug', 'info', 'warn', 'error']),
  logRetentionDays: z.literal(RETENTION_DAYS),
  /** How long the record of a run is kept. */
  runRetentionDays: z.int().positive(),
  /** Of all callers together; what is over it is answered 429. */
  throttle: z.strictObject({ requestsPerSecond: z.int().positive(), burst: z.int().positive() }),
  /** A name of one's own, and its certificate in the Region of the stacks: ARN of AWS Certificate Manager. */
  domain: z
    .strictObject({
      name: z.hostname(),
      certificateArn: z
        .string()
        .regex(/^arn:aws[\w-]*:acm:[\w-]+:\d{12}:certificate\/[\w-]+$/, 'must be the ARN of a certificate'),
    })
    .optional(),
  /** Where programs run: tasks on Fargate, Lambda MicroVMs, or nowhere (docs/sandbox.md says when to choose which). */
  sandbox: z
    .discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('none') }),
      z.strictObject({
        kind: z.literal('fargate'),
        /** Tasks that wait for calls at all times, paid for while they wait. */
        idle: z.int().min(0).max(200).default(0),
        /** Tasks at once, whatever they do: what bounds the bill. */
        most: z.int().min(1).max(200).default(20),
        /** Of one task, in 1,024ths of a processor. */
        cpu: z.literal([256, 512, 1024, 2048, 4096]).default(512),
        /** Of one task; installations may use 2 GB. Fargate has sizes that go with each cpu. */
        memoryMb: z.int().multipleOf(512).min(512).max(30_720).default(2048),
      }),
      z.strictObject({
        kind: z.literal('microvm'),
        /** Of one VM, which has a processor for each 2 GB; installations may use 2 GB. */
        memoryMb: z.literal([1024, 2048, 4096, 8192]).default(2048),
        /** Of AWS's base image al2023-1; `aws lambda-microvms list-managed-microvm-image-versions` lists them. */
        baseImageVersion: z.string().default('1'),
      }),
    ])
    .prefault({ kind: 'none' }),
  /** Where clients reach the platform, when neither at `domain` nor at API Gateway's own address: a proxy before it. */
  baseUrl: z.url().optional(),
  /** A web ACL before the API (about 7 USD a month, and 0.60 a million requests): an address that sends more is refused. */
  firewall: z.strictObject({ requestsPerFiveMinutes: z.int().min(10).max(2_000_000_000) }).optional(),
  /** Whether there are alarms (10 cents a month each), and who is told: whoever confirms the mail, or subscribes later. */
  alarms: z.strictObject({ email: z.email().optional() }).optional(),
  /** What invitations are sent from: an address that is verified in SES, or of a domain that is. @default - none is sent */
  mailFrom: z.email().optional(),
  /** Further settings of the platform, such as its plans: `docs/settings.md`. */
  settings: z.record(z.string().startsWith('PLATFORM_'), z.string()).default({}),
});

export type Stage = z.output<typeof stageSchema>;
export type MicrovmSettings = Extract<Stage['sandbox'], { kind: 'microvm' }>;
export type FargateSettings = Extract<Stage['sandbox'], { kind: 'fargate' }>;

/** What a file of `stages/` exports. Throws one error that names every wrong member. */
export function defineStage(stage: z.input<typeof stageSchema>): Stage {
  const result = stageSchema.safeParse(stage);
  if (!result.success) throw new Error(`stage "${stage.name}" is wrong:\n${z.prettifyError(result.error)}`);
  return result.data;
}

const STAGES = join(import.meta.dirname, '../stages');

/** The stage that a file of `stages/` describes. Throws when there is none of that name. */
export async function loadStage(name: string): Promise<Stage> {
  const names = readdirSync(STAGES).map((file) => basename(file, '.ts'));
  if (!names.includes(name)) throw new Error(`there is no stage "${name}", only ${names.join(', ')}: see stages/`);
  const { stage }: { stage: Stage } = await import(join(STAGES, `${name}.ts`));
  return stage;
}

/**
 * Physical names. Functions find tables, bucket and secrets by their settings, and policies name them, so no stack
 * exports anything to another: an export could not be changed while it is in use.
 */
export const tablePrefixOf = (stage: Stage): string => `platform-${stage.name}-`;
/** Bucket names are taken worldwide; in `Fn::Sub` notation. */
export const bucketNameOf = (stage: Stage): string => `platform-${stage.name}-\${AWS::AccountId}-\${AWS::Region}`;
export const secretPrefixOf = (stage: Stage): string => `platform/${stage.name}`;
/** Of what is counted in log lines. */
export const metricNamespaceOf = (stage: Stage): string => `platform/${stage.name}`;
/** Of the EventBridge schedules that wake the platform. */
export const timerNamesOf = ({ name }: Stage) => ({
  group: `platform-${name}`,
  queue: `platform-${name}-fires`,
  deadQueue: `platform-${name}-fires-dead`,
  role: `platform-${name}-timers`,
});
export const functionNameOf = (stage: Stage, fn: string): string => `platform-${stage.name}-${fn}`;
export const microvmImageNameOf = (stage: Stage): string => `platform-${stage.name}-sandbox`;
/** In `Fn::Sub` notation. */
export const microvmImageArnOf = (stage: Stage): string =>
  `arn:\${AWS::Partition}:lambda:\${AWS::Region}:\${AWS::AccountId}:microvm-image:${microvmImageNameOf(stage)}`;
/** A way in or out of MicroVMs that AWS keeps in each Region; in `Fn::Sub` notation. */
export const managedConnectorOf = (name: 'INTERNET_EGRESS' | 'HTTP_INGRESS'): string =>
  `arn:\${AWS::Partition}:lambda:\${AWS::Region}:aws:network-connector:aws-network-connector:${name}`;
