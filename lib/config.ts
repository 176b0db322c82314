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
  /** Where clients reach the platform, when not at API Gateway's own address: a domain in front of it. */
  baseUrl: z.url().optional(),
  /** Further settings of the platform, such as its plans: `docs/settings.md`. */
  settings: z.record(z.string().startsWith('PLATFORM_'), z.string()).default({}),
});

export type Stage = z.output<typeof stageSchema>;

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
export const functionNameOf = (stage: Stage, fn: string): string => `platform-${stage.name}-${fn}`;
