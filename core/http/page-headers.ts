/**
 * Headers of everything that browsers show: the pages of signing in and the files of the dashboard, on one machine and on CloudFront
 * (`docs/interface/sign-in.md#links-that-sign-in-once`). The policy lets in nothing from elsewhere, no script in the text of a page, and
 * no frame around it. Editors write their style into the page.
 */
export const PAGE_HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'self'; form-action 'self'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
} as const;
