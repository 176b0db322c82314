/**
 * Headers that CloudFront adds to requests on AWS (`lib/constructs/web-front.ts`): a token that authenticates
 * CloudFront, the client's address, and the host name of CloudFront.
 */
export const FRONT_HEADER = 'x-platform-front';
export const VIEWER_HEADER = 'x-platform-viewer';
export const FRONT_HOST_HEADER = 'x-platform-front-host';

/**
 * Headers that API Gateway adds to requests to the server of calls (`lib/constructs/route-api.ts`): a token that
 * authenticates the gateway, the client's address, and the id in the gateway's access log.
 */
export const GATEWAY_HEADER = 'x-platform-gateway';
export const SOURCE_HEADER = 'x-platform-source';
export const GATEWAY_ID_HEADER = 'x-platform-gateway-id';
