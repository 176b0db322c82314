import { type ErrorCode, isPlatformError, shownError } from '#core/base/errors.ts';
import { errorEnvelope } from '#core/http/envelope.ts';
import { MCP_CODES, McpError, type McpObject } from '#core/ports/mcp-endpoint.ts';

/** What no model can react to: the client learns of it instead. */
const OF_THE_PLATFORM: ReadonlySet<ErrorCode> = new Set([
  'UNAUTHORIZED',
  'INTERNAL_ERROR',
  'RATE_LIMITED',
  'BUDGET_EXCEEDED',
  'INSUFFICIENT_CREDITS',
  'STORAGE_QUOTA_EXCEEDED',
]);

/**
 * Returns the result of a tool that failed, with code and hint, so that the model can react. Throws {@link McpError} for
 * failures of the platform.
 *
 * @param requestUuid names unexpected errors.
 */
export function failedResult(error: unknown, requestUuid: string, meta: McpObject = {}): McpObject {
  const { code, message } = shownError(error, 'Something went wrong on our side. Try again.');
  const { error: detail, metadata } = errorEnvelope(error, requestUuid).body;
  if (OF_THE_PLATFORM.has(code)) throw new McpError(MCP_CODES.failed, message, { ...detail, ...metadata, ...meta });
  return { content: [{ type: 'text', text: JSON.stringify(detail) }], isError: true, _meta: meta };
}

/** Whether an error is one that nobody expected, and that is logged. */
export const isUnexpected = (error: unknown): boolean => !isPlatformError(error) || error.code === 'INTERNAL_ERROR';

export const unknownTool = (name: string): McpError =>
  new McpError(MCP_CODES.invalidParams, `Unknown tool: ${name.slice(0, 128)}`);
