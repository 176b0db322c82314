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

/** Metrics that only the process itself can count, as log lines that CloudWatch reads. All functions share them. */
const metrics = new Metrics({ serviceName: 'platform' });

let isStartCounted = false;

/**
 * Counts a cold start, and whether Node has a compile cache: it cannot make a folder where layers are, so it has one only if that of the
 * layer is for this very version, processor, user and flags.
 */
function countStart(): void {
  metrics.captureColdStartMetric();
  if (isStartCounted) return;
  isStartCounted = true;
  metrics.singleMetric().addMetric('CompileCacheHits', 'Count', getCompileCacheDir() === undefined ? 0 : 1);
}

/**
 * Adds the invocation's id and the id of the gateway's access log to each log line. The first request of a process counts
 * its start.
 */
export const observe: MiddlewareObj<APIGatewayProxyEvent>[] = [
  injectLambdaContext(host.logger, { resetKeys: true }) as MiddlewareObj<APIGatewayProxyEvent>,
  { before: ({ event }) => host.logger.appendKeys({ gateway_request_id: event.requestContext.requestId }) },
  { before: countStart },
];
