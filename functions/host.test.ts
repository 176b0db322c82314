import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

/** Sends two requests to one process of a function, like Lambda's runtime. */
const TWO_REQUESTS = `
  const { handler } = await import(${JSON.stringify(join(import.meta.dirname, 'meta/index.ts'))});
  const event = {
    resource: '/health', path: '/health', httpMethod: 'GET', body: null, isBase64Encoded: false,
    multiValueHeaders: {}, multiValueQueryStringParameters: null,
    requestContext: { requestId: 'r', domainName: 'a.example', identity: { sourceIp: '192.0.2.1' } },
  };
  for (let n = 0; n < 2; n += 1) {
    const { statusCode } = await handler(event, { getRemainingTimeInMillis: () => 1000 });
    console.log(JSON.stringify({ statusCode }));
  }
`;

test('a process counts its cold start once, and that it has no compile cache, in the namespace of its stage', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', TWO_REQUESTS], {
    env: {
      PATH: process.env.PATH,
      POWERTOOLS_METRICS_NAMESPACE: 'platform/tested',
      // Lambda sets this value, except with provisioned concurrency.
      AWS_LAMBDA_INITIALIZATION_TYPE: 'on-demand',
      PLATFORM_BASE_URL: 'https://a.example',
    },
  });
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines.filter(({ statusCode }) => statusCode === 200)).toHaveLength(2);
  const counted = lines.filter(({ _aws }) => _aws !== undefined);
  expect(counted).toHaveLength(2);
  expect(counted[0]).toMatchObject({ ColdStart: 1, service: 'platform' });
  expect(counted[1]).toMatchObject({ CompileCacheHits: 0, service: 'platform' });
  for (const [index, Name] of ['ColdStart', 'CompileCacheHits'].entries()) {
    expect(counted[index]._aws.CloudWatchMetrics).toEqual([
      { Namespace: 'platform/tested', Dimensions: [['service']], Metrics: [{ Name, Unit: 'Count' }] },
    ]);
  }
});
