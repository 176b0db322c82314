import { hash, scrypt } from 'node:crypto';
import { promisify } from 'node:util';
import type { Json } from '#core/base/json.ts';
import { DEFAULT_IDLE_SECONDS, DEFAULT_MAX_USES, type ProgramReuse } from '#core/manifest/program-reuse.ts';
import type { Ids } from '#core/ports/ids.ts';
import type { ExecRequest, SandboxReuse } from '#core/ports/sandbox.ts';
import type { EngineRun } from '../engine.ts';

/** A run's use of a program that handles inputs of several runs (`docs/interface/warm-programs.md`). */
export interface WarmRun {
  readonly reuse: SandboxReuse;
  /** Environment of the program: what is the same for all its runs. */
  readonly env: Readonly<Record<string, string>>;
  /** Returns an input for the program, under a new id. */
  inputOf(
    ids: Ids,
    input: Json,
    more?: Readonly<Record<string, string>>,
  ): Required<Pick<ExecRequest, 'call' | 'stdin'>>;
}

/** @param env Environment that the run's own program would have. */
export async function warmRunOf(
  { workspaceId, ownEnv = {} }: Pick<EngineRun, 'workspaceId' | 'ownEnv'>,
  { idle_seconds = DEFAULT_IDLE_SECONDS, max_uses = DEFAULT_MAX_USES, concurrency = 1 }: ProgramReuse,
  env: Readonly<Record<string, string>>,
): Promise<WarmRun> {
  const isOwn = (name: string) => Object.hasOwn(ownEnv, name);
  const shared = Object.entries(env).filter(([name]) => !isOwn(name));
  const own = Object.fromEntries(Object.entries(env).filter(([name]) => isOwn(name)));
  return {
    reuse: {
      secrets: await digestOf(workspaceId, shared),
      ...{ idleMs: idle_seconds * 1000, maxUses: max_uses, concurrency },
    },
    env: { ...Object.fromEntries(shared), PLATFORM_REUSE: 'process', PLATFORM_CONCURRENCY: String(concurrency) },
    inputOf(ids, input, more) {
      const call = ids.uuid();
      const line = JSON.stringify({ call, input, environment: { ...own, ...more } });
      return { call, stdin: Buffer.from(`${line}\n`) };
    },
  };
}

const derive = promisify(scrypt) as (secret: string, salt: string, bytes: number) => Promise<Buffer>;
const DIGEST_BYTES = 32;
const MAX_KNOWN = 1000;
const known = new Map<string, Promise<string>>();

/**
 * Returns a digest of secrets from which a weak one cannot be guessed, since hosts keep it where more people may read than
 * in the vault. It takes some 50 ms for new values.
 */
function digestOf(workspaceId: string, secrets: readonly (readonly [string, string])[]): Promise<string> {
  const text = JSON.stringify([...secrets].sort(([a], [b]) => (a < b ? -1 : 1)));
  const at = hash('sha256', `${workspaceId}\n${text}`);
  let digest = known.get(at);
  if (digest === undefined) {
    if (known.size >= MAX_KNOWN) known.delete(known.keys().next().value!);
    digest = derive(text, workspaceId, DIGEST_BYTES).then((bytes) => bytes.toString('hex'));
    known.set(at, digest);
    digest.catch(() => known.delete(at));
  }
  return digest;
}
