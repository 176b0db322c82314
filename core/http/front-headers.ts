/**
 * Headers that CloudFront adds to requests on AWS (`lib/constructs/web-front.ts`): a token that authenticates
 * CloudFront, the client's address, and the host name of CloudFront.
 */
export const FRONT_HEADER = 'x-platform-front';
export const VIEWER_HEADER = 'x-platform-viewer';
export const FRONT_HOST_HEADER = 'x-platform-front-host';
