import type { Json } from '#core/base/json.ts';
import type { Deps } from '#core/ports/deps.ts';
import { putIfLarge } from '#core/ports/large-value.ts';
import { absent, allOf, exists, type TransactOperation } from '#core/ports/table.ts';
import type { NewRun, RunResult } from '../run.ts';
import { bytesSaid, contentText, turnBlobKey, turnKey } from './items.ts';

/** Larger contents are in a blob, so that a query of many turns stays small. */
const MAX_INLINE_BYTES = 16 * 1024;
/** An error's message in a turn. */
const MAX_MESSAGE_LENGTH = 2000;

/** Returns the write that begins the turn of a run. It fails if the turn's number is taken. */
export function turnBegin(workspaceId: string, run: NewRun): TransactOperation {
  const { sessionId, number, bytes = 0, said = 0 } = run.session!;
  return {
    op: 'put',
    item: {
      ...turnKey(workspaceId, sessionId, number),
      run_id: run.id,
      agent_version: run.agentVersion,
      created_at: run.startedAt,
      bytes,
      said,
    },
    // An erased session keeps its turns for a while, without what was said.
    condition: absent(),
  };
}

/**
 * Stores what was said in a turn if it is large, and returns the write that ends the turn. It fails if the session was
 * erased.
 *
 * @param now Epoch milliseconds.
 */
export async function turnEnd(
  deps: Pick<Deps, 'blobs'>,
  workspaceId: string,
  run: NewRun,
  { result, now }: { readonly result: Omit<RunResult, 'trace'>; readonly now: number },
): Promise<TransactOperation> {
  const { sessionId, number } = run.session!;
  const { status, errorCode, errorMessage, said: text } = result;
  const content = {
    input: result.input,
    ...(text !== undefined && { text }),
    output: status === 'completed' ? result.output : null,
  };
  const stored = contentText(content);
  const isLarge = await putIfLarge(deps, turnBlobKey(workspaceId, sessionId, number), stored, MAX_INLINE_BYTES);
  const said = status === 'completed' ? bytesSaid(content) : 0;
  return {
    op: 'update',
    key: turnKey(workspaceId, sessionId, number),
    changes: {
      set: {
        status,
        ended_at: now,
        error_code: errorCode ?? undefined,
        error_message: errorMessage?.slice(0, MAX_MESSAGE_LENGTH),
        content: isLarge ? undefined : (content as unknown as Json),
        own_said: said,
      },
      add: { bytes: Buffer.byteLength(stored) + (result.state?.growth ?? 0), said },
    },
    condition: allOf(exists(), absent('erased'), absent('status')),
  };
}
