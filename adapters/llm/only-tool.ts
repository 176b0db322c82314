import type { LlmRequest } from '#core/ports/llm.ts';
import type { OnlyTool } from './providers/api.ts';
import { apiOf } from './providers.ts';

/** Returns what the last `only` message of a conversation adds to its request, or an empty object without one. */
export function onlyTool(request: LlmRequest): OnlyTool {
  const restriction = request.messages.findLast(({ role }) => role === 'only');
  if (restriction?.role !== 'only') return { messages: [] };
  return apiOf(request.provider).onlyTool(restriction.tool, request);
}
