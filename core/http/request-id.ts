/** `req_` and the UUID's 32 hex digits, so that a request id names its run (`contract.md` 0.5). */
export const requestIdOf = (requestUuid: string): string => `req_${requestUuid.replaceAll('-', '')}`;
