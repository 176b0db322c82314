import { getCompileCacheDir } from 'node:module';
import { injectLambdaContext } from '@aws-lambda-powertools/logger/middleware';
import { Metrics } from '@aws-lambda-powertools/metrics';
import type { MiddlewareObj } from '@middy/core';
import type { APIGatewayProxyEvent } from 'aws-lambda';
import { parseAwsConfig } from '#aws/config.ts';
import { hostParts } from '#aws/deps.ts';

/** This function's settings and logger, made once per process. */
// biome-ignore lint/style/noProcessEnv: the one place that reads the environment of a Lambda function.
export const host = hostParts(parseAwsConfig(process.env));

/** Address that a Lambda Web Function listens on, as `host:port`, set by Lambda. */
// biome-ignore lint/style/noProcessEnv: see above.
export const httpEndpoint = process.env.AWS_LAMBDA_HTTP_ENDPOINT ?? '';

/** Metrics that only the process itself can count, as log lines that CloudWatch extracts. All functions share them. */
const metrics = new Metrics({ serviceName: 'platform' });

let isStartCounted = false;

/**
 * Counts a cold start, and whether Node uses the compile cache. Node cannot create a folder where layers are, so the
 * folder exists only if the layer's cache matches the Node version, processor, user and flags.
 */
export function countStart(): void {
  metrics.captureColdStartMetric();
  if (isStartCounted) return;
  isStartCounted = true;
  metrics.singleMetric().addMetric('CompileCacheHits', 'Count', getCompileCacheDir() === undefined ? 0 : 1);
}

/**
 * Adds the invocation's id and the id of the gateway's access log to each log line. The first request of a process
 * counts as its start.
 */
export const observe: MiddlewareObj<APIGatewayProxyEvent>[] = [
  injectLambdaContext(host.logger, { resetKeys: true }) as MiddlewareObj<APIGatewayProxyEvent>,
  { before: ({ event }) => host.logger.appendKeys({ gateway_request_id: event.requestContext.requestId }) },
  { before: countStart },
];
