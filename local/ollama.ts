import * as z from 'zod';
import { HttpOutbound } from '#core/outbound/http-outbound.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { LocalConfig } from './config.ts';

/** Time to wait for an answer, in milliseconds; a server on this machine answers in a few. */
const MAX_WAIT_MS = 1000;
const MAX_BYTES = 1024 * 1024;
/** Models that the start names; `ollama list` shows all. */
const MAX_NAMED = 5;

const versionAnswer = z.object({ version: z.string().max(100) });
const tagsAnswer = z.object({ models: z.array(z.object({ name: z.string().max(300) })) });

export interface FoundOllama {
  readonly version: string;
  /** Names of the installed models. */
  readonly models: readonly string[];
  /** The settings with which agents use it. */
  readonly settings: Pick<LocalConfig, 'ollamaUrl' | 'ollamaSchemas'>;
}

/**
 * Looks for Ollama at `PLATFORM_FIND_OLLAMA`, unless the operator set a model server. Returns `undefined` if nothing
 * answers there in time as Ollama does (its API: `GET /api/version`, `GET /api/tags`).
 */
export async function findOllama(
  { ollamaAddress, ollamaUrl }: Pick<LocalConfig, 'ollamaAddress' | 'ollamaUrl'>,
  clock: Clock,
): Promise<FoundOllama | undefined> {
  if (ollamaAddress === 'off' || ollamaUrl !== undefined) return undefined;
  // Only the operator sets this address, so it may be private.
  const outbound = new HttpOutbound({ clock, ownHosts: [new URL(ollamaAddress).hostname] });
  const read = async <T>(path: string, shape: z.ZodType<T>): Promise<T> =>
    shape.parse(JSON.parse(await outbound.get(`${ollamaAddress}${path}`, MAX_BYTES)));
  const found = Promise.all([read('/api/version', versionAnswer), read('/api/tags', tagsAnswer)]).then(
    ([{ version }, { models }]) => ({ version, models: models.map(({ name }) => name) }),
    () => undefined,
  );
  const answer = await Promise.race([found, clock.sleep(MAX_WAIT_MS).then(() => undefined)]);
  return answer && { ...answer, settings: { ollamaUrl: `${ollamaAddress}/v1`, ollamaSchemas: true } };
}

/** The line of the start about it: one line of printable characters, whatever the server calls its models. */
export function ollamaLine({ version, models }: FoundOllama): string {
  const named = models.slice(0, MAX_NAMED).join(', ');
  const more = models.length > MAX_NAMED ? ` and ${models.length - MAX_NAMED} more` : '';
  const list = models.length === 0 ? 'no model yet: ollama pull llama3.2' : `${named}${more}`;
  return `Ollama ${version} (${list})`.replaceAll(/[^\x20-\x7e]/g, '?');
}
