import { type ErrorCode, isPlatformError, PlatformError } from '#core/base/errors.ts';
import type { ChatKind } from './chat-kinds.ts';
import { isForVisitors } from './use.ts';

/** What visitors learn of an error: nothing of the workspace, its limits, its agents or its keys. */
const TEXTS: { readonly [Code in ErrorCode]?: string } = {
  RATE_LIMITED: 'This chat is busy: try again in a moment.',
  LLM_RATE_LIMITED: 'This chat is busy: try again in a moment.',
  BUDGET_EXCEEDED: 'This chat has reached its limit for today: try again tomorrow.',
  INSUFFICIENT_CREDITS: 'This chat has reached its limit for today: try again tomorrow.',
  RUN_CANCELLED: 'The answer was stopped.',
  TIMEOUT: 'The answer took too long: try again.',
};

const LIMITS: readonly ErrorCode[] = ['RATE_LIMITED', 'LLM_RATE_LIMITED', 'BUDGET_EXCEEDED', 'INSUFFICIENT_CREDITS'];
const OF_INPUT: readonly ErrorCode[] = ['INVALID_INPUT', 'MISSING_INPUT_FIELDS', 'DOCUMENT_TOO_LARGE'];
const WAIT_SECONDS = 5;

export const plainText = (code: ErrorCode | null): string =>
  (code === null ? undefined : TEXTS[code]) ?? 'No answer could be given to this message.';

/** Returns an error as visitors see it. The fields of a form are known to them, so errors of these are shown. */
export function plainError(error: unknown, kind: ChatKind): PlatformError {
  if (!isPlatformError(error)) return new PlatformError('UNPROCESSABLE', plainText(null));
  if (isForVisitors(error) || (kind === 'form' && OF_INPUT.includes(error.code))) return error;
  if (LIMITS.includes(error.code)) {
    const wait = error.code === 'RATE_LIMITED' || error.code === 'LLM_RATE_LIMITED' ? WAIT_SECONDS : undefined;
    return new PlatformError('RATE_LIMITED', plainText(error.code), wait ? { suggested_wait_time: wait } : {});
  }
  if (error.code === 'TIMEOUT' || error.code === 'CONFLICT')
    return new PlatformError(error.code, plainText(error.code));
  return new PlatformError('UNPROCESSABLE', plainText(error.code));
}
