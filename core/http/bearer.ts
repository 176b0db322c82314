/** The key or token that a header `Authorization: Bearer ...` carries (RFC 6750, section 2.1); '' for any other text. */
export const bearerOf = (authorization: string | null | undefined): string =>
  /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1] ?? '';
