import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { APIGatewayProxyEvent } from 'aws-lambda';

/** Default `binaryMediaTypes` of the API; a test may read the real ones from its template. */
const BINARY = ['multipart/form-data'];
/** Headers that belong to one connection or that the gateway sets itself. */
const NOT_FORWARDED = new Set([
  'connection',
  'keep-alive',
  'transfer-encoding',
  'te',
  'upgrade',
  'expect',
  'content-length',
]);

/**
 * Builds the proxy event that an API Gateway REST API makes from a request: the path and path parameters as sent, the
 * query decoded, and the body in base64 for binary media types, otherwise as text.
 */
export function proxyEvent(
  request: Pick<IncomingMessage, 'method' | 'url' | 'rawHeaders'>,
  body: Buffer,
  matched: {
    resource: string;
    pathParameters: Record<string, string>;
    stage: string;
    requestId?: string;
    binaryMediaTypes?: readonly string[];
  },
): APIGatewayProxyEvent {
  const [path = '/', search = ''] = request.url!.split(/\?(.*)/s);
  const headers = new Map<string, string[]>();
  for (let i = 0; i < request.rawHeaders.length; i += 2) {
    const [name, value] = [request.rawHeaders[i]!, request.rawHeaders[i + 1]!];
    if (!NOT_FORWARDED.has(name.toLowerCase())) headers.set(name, [...(headers.get(name) ?? []), value]);
  }
  headers.set('X-Forwarded-For', ['203.0.113.7']);
  headers.set('X-Forwarded-Port', ['443']);
  headers.set('X-Forwarded-Proto', ['https']);
  const query = Map.groupBy(new URLSearchParams(search), ([name]) => name);
  const multiValueQuery = Object.fromEntries(
    [...query].map(([name, pairs]) => [name, pairs.map(([, value]) => value)]),
  );
  const contentType = [...headers].find(([name]) => name.toLowerCase() === 'content-type')?.[1].at(-1) ?? '';
  const isBinary =
    body.length > 0 && (matched.binaryMediaTypes ?? BINARY).includes(contentType.split(';')[0]!.trim().toLowerCase());
  const { resource, pathParameters, stage, requestId = randomUUID() } = matched;
  return {
    resource,
    path,
    httpMethod: request.method!,
    headers: lastValues(Object.fromEntries(headers)),
    multiValueHeaders: Object.fromEntries(headers),
    queryStringParameters: query.size === 0 ? null : lastValues(multiValueQuery),
    multiValueQueryStringParameters: query.size === 0 ? null : multiValueQuery,
    pathParameters: Object.keys(pathParameters).length === 0 ? null : pathParameters,
    stageVariables: null,
    requestContext: {
      accountId: '111122223333',
      apiId: 'a1b2c3d4e5',
      authorizer: null,
      domainName: 'a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com',
      domainPrefix: 'a1b2c3d4e5',
      extendedRequestId: 'ZQ1xHGx4joEFXyw=',
      httpMethod: request.method!,
      identity: {
        accessKey: null,
        accountId: null,
        apiKey: null,
        apiKeyId: null,
        caller: null,
        clientCert: null,
        cognitoAuthenticationProvider: null,
        cognitoAuthenticationType: null,
        cognitoIdentityId: null,
        cognitoIdentityPoolId: null,
        principalOrgId: null,
        sourceIp: '203.0.113.7',
        user: null,
        userAgent: headers.get('User-Agent')?.[0] ?? null,
        userArn: null,
      },
      path: `/${stage}${path}`,
      protocol: 'HTTP/1.1',
      requestId,
      requestTimeEpoch: Date.now(),
      resourceId: 'a1b2c3',
      resourcePath: resource,
      stage,
    },
    body: body.length === 0 ? null : body.toString(isBinary ? 'base64' : 'utf8'),
    isBase64Encoded: isBinary,
  };
}

const lastValues = (values: Record<string, string[]>): Record<string, string> =>
  Object.fromEntries(Object.entries(values).map(([name, all]) => [name, all.at(-1)!]));
