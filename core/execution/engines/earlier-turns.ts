import type { LlmMessage } from '#core/ports/llm.ts';
import { saidBy } from '#core/runs/sessions/history.ts';
import type { SessionOfRun } from './engine.ts';
import type { PromptMessage } from './prompt.ts';

/**
 * Puts the earlier turns of a session before a prompt's message (`docs/interface/sessions.md#prompts`). Each has the same
 * text in every later request, because providers read from their caches only what begins the same.
 */
export function withEarlierTurns({ turns, leftOut }: SessionOfRun, message: PromptMessage): LlmMessage[] {
  if (turns.length === 0) return [message];
  const { shared, ...last } = message;
  const earlier = turns.flatMap(({ text, input, output }, index): LlmMessage[] => [
    {
      role: 'user',
      // What all calls share comes first, whatever came before.
      ...(index === 0 && shared !== undefined && { shared }),
      text: (index === 0 ? noteOf(leftOut) : '') + (text ?? JSON.stringify(input)),
    },
    { role: 'assistant', text: saidBy(output), toolCalls: [] },
  ]);
  return [...earlier, last];
}

const noteOf = (leftOut: number): string =>
  leftOut === 0
    ? ''
    : `[The conversation is longer than what you see: its first ${leftOut === 1 ? 'message is' : `${leftOut} messages are`} left out.]\n\n`;
