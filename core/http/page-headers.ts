/**
 * Headers of all pages for browsers: the sign-in pages and the files of the dashboard, on one machine and on CloudFront
 * (`docs/interface/sign-in.md#links-that-sign-in-once`). The policy allows no content from other sites, no inline
 * scripts, and no framing. Inline styles are allowed because editors need them.
 */
export const PAGE_HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'self'; form-action 'self'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
} as const;

/** Headers of the documentation, whose search runs WebAssembly. */
export const DOCS_HEADERS = {
  ...PAGE_HEADERS,
  'content-security-policy': PAGE_HEADERS['content-security-policy'].replace(
    "script-src 'self'",
    "script-src 'self' 'wasm-unsafe-eval'",
  ),
} as const;
