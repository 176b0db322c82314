/**
 * What CloudFront adds to requests on AWS (`lib/constructs/web-front.ts`): a token that proves it is CloudFront, the client's address, and
 * its own name.
 */
export const FRONT_HEADER = 'x-platform-front';
export const VIEWER_HEADER = 'x-platform-viewer';
export const FRONT_HOST_HEADER = 'x-platform-front-host';
