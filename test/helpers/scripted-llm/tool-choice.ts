import models from '#core/models/models.json' with { type: 'json' };
import type { ModelFacts } from '#core/ports/model-table.ts';

/** Tool choice of a request. */
export interface ToolChoice {
  /** Tool that the model must call. */
  readonly forced?: string;
  /** Reason why the provider would refuse the choice. */
  readonly problem?: string;
}

/** Validates a choice in Anthropic's form; other wire formats convert theirs first. */
export function toolChoiceOf(
  model: string,
  declared: readonly string[],
  choice: { readonly type: string; readonly name?: string } | undefined,
): ToolChoice {
  if (choice?.type !== 'tool' && choice?.type !== 'any') return {};
  if (refusesForcing(model)) return { problem: `tool_choice: forced tool use is not supported by ${model}.` };
  if (choice.type === 'any') return {};
  const forced = choice.name!;
  if (!declared.includes(forced)) return { problem: `tool_choice: there is no tool ${forced} in the request.` };
  return { forced };
}

/**
 * Returns whether a model refuses forced choices: by the platform's table, or because its name contains `-unforced`.
 */
function refusesForcing(model: string): boolean {
  const known = models as Record<string, ModelFacts>;
  return model.includes('-unforced') || known[model]?.forced_tools === false;
}

/** Anthropic models that accept system messages, and tool changes in them, inside a conversation. */
const TAKES_SYSTEM = /^claude-(fable-5|opus-5|opus-4-8|sonnet-5-5|haiku-5-5)/;
const TOOL_CHANGES = 'mid-conversation-tool-changes-2026-07-01';

interface Message {
  readonly role: string;
  readonly content: string | readonly { readonly type: string; readonly tool?: { readonly name: string } }[];
}

/**
 * Returns why Anthropic would refuse the system messages inside a conversation
 * (https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages).
 */
export function systemProblem(
  messages: readonly Message[],
  { model, declared, betas }: { readonly model: string; readonly declared: readonly string[]; readonly betas: string },
): string | undefined {
  for (const [index, { role, content }] of messages.entries()) {
    if (role !== 'system') continue;
    const at = `messages.${index}`;
    if (!TAKES_SYSTEM.test(model)) return `${at}: role 'system' is not supported by ${model}.`;
    if (messages[index - 1]?.role !== 'user') return `${at}: a system message must follow a user message.`;
    const next = messages[index + 1]?.role;
    if (next !== undefined && next !== 'assistant') return `${at}: a system message must precede an assistant message.`;
    for (const { type, tool } of typeof content === 'string' ? [] : content) {
      if (type !== 'tool_removal') continue;
      if (!betas.includes(TOOL_CHANGES)) return `${at}: tool_removal needs the anthropic-beta header ${TOOL_CHANGES}.`;
      if (!declared.includes(tool!.name)) return `${at}: there is no tool ${tool!.name} in the request.`;
    }
  }
  return undefined;
}
