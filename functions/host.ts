import { injectLambdaContext } from '@aws-lambda-powertools/logger/middleware';
import { Metrics } from '@aws-lambda-powertools/metrics';
import type { MiddlewareObj } from '@middy/core';
import type { APIGatewayProxyEvent } from 'aws-lambda';
import * as z from 'zod';
import { parseAwsConfig } from '#aws/config.ts';
import { hostParts } from '#aws/deps.ts';

// Compiling a shape pays after a thousand values; most functions that are started see fewer.
z.config({ jitless: true });

/** This function's settings and logger, made once per process. */
// biome-ignore lint/style/noProcessEnv: the one place that reads the environment of a Lambda function.
export const host = hostParts(parseAwsConfig(process.env));

/** What nobody but a function itself can count, as log lines that CloudWatch reads: one number, whatever function it is of. */
const metrics = new Metrics({ serviceName: 'platform' });

/**
 * Log lines say which invocation wrote them, and under which id the gateway's access log has the request. The first one of
 * a process says that somebody waited for its start.
 */
export const observe: MiddlewareObj<APIGatewayProxyEvent>[] = [
  injectLambdaContext(host.logger, { resetKeys: true }) as MiddlewareObj<APIGatewayProxyEvent>,
  { before: ({ event }) => host.logger.appendKeys({ gateway_request_id: event.requestContext.requestId }) },
  { before: () => metrics.captureColdStartMetric() },
];
