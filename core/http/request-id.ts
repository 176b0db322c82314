/**
 * Returns `req_` and the UUID's 32 hex digits, so that a request id identifies its run
 * (`docs/interface/identifiers.md#run-ids`).
 */
export const requestIdOf = (requestUuid: string): string => `req_${requestUuid.replaceAll('-', '')}`;
