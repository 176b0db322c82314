import { createHash } from 'node:crypto';
import type { SuiteFiles } from '#core/manifest/evals/suite.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { getLarge } from '#core/ports/large-value.ts';

/** The suites of a version are in one blob, the JSON of their texts by name: few requests read them, and every call the definition. */
export const evalFilesKey = (id: string): string => `definitions/${id}.evals.json`;

/** The blob of some suites. */
export interface EvalContents {
  readonly content: Uint8Array;
  /** Hex; the same for the same files. */
  readonly sha256: string;
}

export function evalContentsOf(files: SuiteFiles): EvalContents {
  const sorted = Object.entries(files).sort(([a], [b]) => (a < b ? -1 : 1));
  const content = Buffer.from(JSON.stringify(Object.fromEntries(sorted)));
  return { content, sha256: createHash('sha256').update(content).digest('hex') };
}

/** Reads the suites that were published with a version; `undefined` if there are none. */
export async function readEvalFiles(
  deps: Pick<Deps, 'blobs'>,
  { id, evalFiles }: Pick<AgentVersion, 'id' | 'evalFiles'>,
): Promise<SuiteFiles | undefined> {
  if (evalFiles === undefined) return undefined;
  const text = await getLarge(deps, evalFilesKey(id));
  if (text === undefined) throw new Error(`the suites of agent version ${id} are missing`);
  return JSON.parse(text) as SuiteFiles;
}
