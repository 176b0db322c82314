import type * as z from 'zod';
import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { CallInput } from '#core/execution/input/call-input.ts';
import { asObject, splitCredentials } from '#core/execution/input/members.ts';
import { inputFromText } from '#core/execution/input/text-input.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { runAgentInput } from './routes.ts';

export type RunAgentInput = z.output<typeof runAgentInput>;

const refused = (message: string, hint?: string): PlatformError =>
  new PlatformError('INVALID_INPUT', message, hint === undefined ? {} : { hint });

/** Returns what a client asks, so that one id of a run never stands for two questions: the id of a message, or of interrupts. */
export function askedBy({ messages, resume = [] }: RunAgentInput): string {
  if (resume.length > 0) return `resume ${resume.map(({ interruptId }) => interruptId).join(' ')}`;
  const message = messages.findLast(({ role }) => role === 'user');
  return `message ${message?.id ?? messages.length}`;
}

/**
 * Returns the input that the newest message stands for (`docs/interface/ag-ui.md#input`). Throws INVALID_INPUT if the
 * client has nothing to say, says it with more than text, or if it is not clear which member of the input a text fills.
 */
export function inputOf(agent: AgentVersion, { messages, forwardedProps }: RunAgentInput): CallInput {
  const { input } = (forwardedProps ?? {}) as { readonly input?: Json };
  const given = input === undefined ? fromMessage(agent, messages) : asObject(input, 'body.forwardedProps.input');
  const { rest, llmCredentials } = splitCredentials(given, 'llm_credentials');
  return { document: rest, uploads: [], isMultipart: false, ...(llmCredentials && { llmCredentials }) };
}

const SPOKEN: ReadonlySet<string> = new Set(['user', 'assistant', 'tool']);

function fromMessage(agent: AgentVersion, messages: RunAgentInput['messages']): { [member: string]: Json } {
  const last = messages.findLastIndex(({ role }) => SPOKEN.has(role));
  const { role, content } = messages[last] ?? {};
  if (role !== 'user') {
    throw refused(
      `body.messages: the last message must be of the role "user", ${last < 0 ? 'but there is none' : `not "${role}"`}.`,
      'The session has the messages before it. The agent calls its own tools, and none of the client.',
    );
  }
  const text = textOf(content, `body.messages.${last}.content`);
  if (text.trim() === '') throw refused(`body.messages.${last}.content: must not be empty.`);
  try {
    return inputFromText(agent, text);
  } catch (error) {
    if (!isPlatformError(error)) throw error;
    const where = error.message.replace(/^body\.text/, `body.messages.${last}.content`);
    throw refused(where, 'Send "forwardedProps": {"input": {...}} with these members.');
  }
}

function textOf(content: unknown, field: string): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw refused(`${field}: must be a text, or a list of parts.`);
  return content
    .map((part: unknown, index) => {
      const { type, text } = (part ?? {}) as { readonly type?: unknown; readonly text?: unknown };
      if (type === 'text' && typeof text === 'string') return text;
      throw refused(
        `${field}.${index}: must be a part of the type "text", not ${JSON.stringify(type ?? null).slice(0, 40)}.`,
        'Files go with a call of the endpoint, as multipart/form-data.',
      );
    })
    .join('\n');
}
