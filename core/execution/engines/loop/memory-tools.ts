import { isMemoryName, MEMORY_NAME_RULE } from '#core/accounts/documents/memory-names.ts';
import type { DocumentHead } from '#core/accounts/documents/store.ts';
import { isPlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { EngineRun, RunMemory } from '../engine.ts';
import { pageOf, type ReadPlace } from './file-tools.ts';
import type { MemoryTool } from './tool-definitions.ts';
import { errorOutcome, outcomeOf, type ToolOutcome } from './tool-outcome.ts';
import { MAX_RESULT_BYTES } from './tool-output.ts';
import { UNTRUSTED_BYTES, untrusted } from './untrusted.ts';

/** Maximum number of names in one list. */
const MAX_LISTED = 50;

type Parameters = { readonly [name: string]: Json };

/**
 * Calls a memory tool (`docs/interface/memory.md#tools`). What the platform refuses is told to the model.
 *
 * @param requestId The same whenever the call is made again.
 */
export async function callMemoryTool(
  run: Pick<EngineRun, 'memory' | 'mask'>,
  tool: MemoryTool,
  parameters: Parameters,
  requestId: string | undefined,
): Promise<ToolOutcome> {
  const { name } = parameters;
  if (name !== undefined && !isMemoryName(name as string)) return errorOutcome(`name ${MEMORY_NAME_RULE}.`);
  try {
    const memory = await run.memory!();
    return await CALLS[tool](memory, parameters, { ...run, requestId });
  } catch (error) {
    if (isPlatformError(error)) return errorOutcome(error.message);
    throw error;
  }
}

type MemoryCall = (
  memory: RunMemory,
  parameters: Parameters,
  run: Pick<EngineRun, 'mask'> & { readonly requestId: string | undefined },
) => Promise<ToolOutcome>;

const CALLS: { readonly [tool in MemoryTool]: MemoryCall } = {
  async memory_list(memory, { prefix = '', after }) {
    const page = { prefix: prefix as string, after: after as string | undefined, limit: MAX_LISTED };
    const { heads, hasMore } = await memory.list(page);
    if (heads.length === 0) return outcomeOf('(no documents)');
    const rest = hasMore ? `\nThere are more: call it again with after "${heads.at(-1)!.key}".` : '';
    return outcomeOf(`${untrusted('Documents of the memory:', heads.map(lineOf).join('\n'))}${rest}`);
  },

  async memory_read(memory, { name, ...place }) {
    const document = await memory.get(name as string);
    if (document === undefined) return errorOutcome(`There is no document "${name}" in the memory.`);
    if (document.text === '') return outcomeOf(`${lineOf(document)} is empty.`);
    const read = pageOf(document.text, place as ReadPlace, MAX_RESULT_BYTES - UNTRUSTED_BYTES);
    return 'problem' in read ? errorOutcome(read.problem) : outcomeOf(untrusted(`${lineOf(document)}:`, read.page));
  },

  async memory_write(memory, { name, content, if_version: expectedVersion = 0 }, { mask, requestId }) {
    const text = mask.text(content as string);
    if (text.includes('\0')) return errorOutcome('content must be a text without NUL characters.');
    const write = { text, expectedVersion: expectedVersion as number, requestId };
    const { version } = await memory.write(name as string, write);
    return outcomeOf(`Wrote "${name}", which has version ${version} now.`);
  },

  async memory_delete(memory, { name, if_version: expectedVersion }) {
    const isDeleted = await memory.delete(name as string, expectedVersion as number);
    return outcomeOf(isDeleted ? `Deleted "${name}".` : `There is no document "${name}" in the memory.`);
  },
};

const lineOf = ({ key, version, sizeBytes, updatedAt, updatedBy }: DocumentHead): string =>
  `${key} (version ${version}, ${sizeBytes} bytes, written ${updatedAt} by ${updatedBy})`;
