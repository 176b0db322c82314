import * as z from 'zod';
import type { Json } from '#core/base/json.ts';
import { type ServerResult, type ServerResultPart, ToolServerFailure } from '#core/ports/tool-servers.ts';
import { untrusted } from '../engines/loop/untrusted.ts';

const MAX_PARTS = 200;
const parts = z
  .array(
    z.looseObject({
      text: z.string().nullish(),
      data: z.unknown().optional(),
      url: z.string().nullish(),
      raw: z.string().nullish(),
      mediaType: z.string().nullish(),
    }),
  )
  .max(MAX_PARTS);
const message = z.looseObject({ parts, contextId: z.string().max(256).nullish() });
const task = z.looseObject({
  id: z.string().min(1).max(256),
  contextId: z.string().max(256).nullish(),
  status: z.looseObject({ state: z.string().max(64), message: message.nullish() }),
  artifacts: z.array(z.looseObject({ parts })).max(MAX_PARTS).nullish(),
});

/** A task of an agent of others. */
export interface RemoteTask {
  readonly id: string;
  /** Whether it has ended, or waits for an answer. */
  readonly isOver: boolean;
  readonly sent: z.output<typeof task>;
}

type Answer = { readonly task: RemoteTask } | { readonly message: z.output<typeof message> };

const OPEN = ['TASK_STATE_SUBMITTED', 'TASK_STATE_WORKING'];
const ASKS = ['TASK_STATE_INPUT_REQUIRED', 'TASK_STATE_AUTH_REQUIRED'];

/** Reads an answer to a message. Throws {@link ToolServerFailure}. */
export function taskIn(sent: Json): Answer {
  const { task: asTask, message: asMessage } = (sent ?? {}) as { readonly task?: Json; readonly message?: Json };
  if (asMessage !== undefined) return { message: checked(message, asMessage) };
  const read = checked(task, asTask);
  return { task: { id: read.id, isOver: !OPEN.includes(read.status.state), sent: read } };
}

function checked<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const { success, data, error } = schema.safeParse(value);
  if (success) return data;
  const { path, message: text } = error.issues[0]!;
  throw new ToolServerFailure(`its answer is wrong at ${path.join('.') || 'its top'}: ${text}`);
}

/** Returns what the model is told: the texts of the agent are data of others. */
export function resultOf(answer: Answer): ServerResult {
  if ('message' in answer) return resultFrom('The agent answers:', answer.message.parts, answer.message.contextId);
  const { id, status, artifacts, contextId } = answer.task.sent;
  const said = [...(artifacts ?? []).flatMap((artifact) => artifact.parts), ...(status.message?.parts ?? [])];
  if (ASKS.includes(status.state)) {
    return resultFrom(`The agent asks something. Answer with task_id "${safe(id)}", or ask a person:`, said, contextId);
  }
  const isError = status.state !== 'TASK_STATE_COMPLETED';
  const source = isError ? `The agent did not complete the task (${safe(status.state)}):` : 'The agent answers:';
  return { ...resultFrom(source, said, contextId), isError };
}

const safe = (text: string): string => text.replaceAll(/[^\w.:-]/g, '_').slice(0, 128);

function resultFrom(source: string, said: z.output<typeof parts>, contextId: string | null | undefined): ServerResult {
  const texts = said.flatMap(({ text, data, url }) =>
    text != null ? [text] : data !== undefined ? [JSON.stringify(data)] : url != null ? [url] : [],
  );
  const files: ServerResultPart[] = said.flatMap(({ raw, mediaType }) =>
    raw == null
      ? []
      : [{ type: 'file', mediaType: mediaType ?? 'application/octet-stream', bytes: Buffer.from(raw, 'base64') }],
  );
  const context = contextId ? `\nIts context is "${safe(contextId)}".` : '';
  const text = `${untrusted(source, texts.join('\n') || '(nothing)')}${context}`;
  return { isError: false, parts: [{ type: 'text', text }, ...files] };
}
