import { injectLambdaContext } from '@aws-lambda-powertools/logger/middleware';
import { Metrics } from '@aws-lambda-powertools/metrics';
import type { MiddlewareObj } from '@middy/core';
import type { APIGatewayProxyEvent } from 'aws-lambda';
import * as z from 'zod';
import { parseAwsConfig } from '#aws/config.ts';
import { hostParts } from '#aws/deps.ts';

// Compiling a schema pays off after a thousand values; most processes see fewer.
z.config({ jitless: true });

/** This function's settings and logger, made once per process. */
// biome-ignore lint/style/noProcessEnv: the one place that reads the environment of a Lambda function.
export const host = hostParts(parseAwsConfig(process.env));

/** Metrics that only the process itself can count, as log lines that CloudWatch reads. All functions share them. */
const metrics = new Metrics({ serviceName: 'platform' });

/**
 * Adds the invocation's id and the id of the gateway's access log to each log line. The first request of a process counts
 * a cold start.
 */
export const observe: MiddlewareObj<APIGatewayProxyEvent>[] = [
  injectLambdaContext(host.logger, { resetKeys: true }) as MiddlewareObj<APIGatewayProxyEvent>,
  { before: ({ event }) => host.logger.appendKeys({ gateway_request_id: event.requestContext.requestId }) },
  { before: () => metrics.captureColdStartMetric() },
];
