/** What CloudFront adds to requests on AWS (`lib/constructs/web-front.ts`): a token that proves it is CloudFront, and the client's address. */
export const FRONT_HEADER = 'x-platform-front';
export const VIEWER_HEADER = 'x-platform-viewer';
