import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';

const endpoint = z
  .string()
  .max(2048)
  .describe('Public https:// URL of an OTLP/HTTP collector; /v1/traces is added unless the URL ends with it.');
const content = z.boolean().describe('Whether spans have the stored contents of runs, masked.');

const telemetry = z
  .object({
    endpoint,
    headers: z.record(z.string(), z.string()).describe('Names of the headers, each with a mask in place of its value.'),
    content,
    updated_at: z.iso.datetime(),
    problem: z.string().nullable().describe('Why spans could not be sent the last time; null if they could.'),
    problem_since: z.iso.datetime().nullable().describe('When spans could not be sent first; null if they can.'),
  })
  .nullable()
  .describe('The settings; null if no spans are sent.');

const PATH = '/workspaces/{workspace_id}/telemetry';
const row = { fn: 'secrets', auth: 'key', path: PATH } as const;
const AUDITED = ['content'] as const;

/** See `docs/interface/telemetry.md`. */
export const telemetryRoutes = defineRoutes([
  {
    ...row,
    operationId: 'getTelemetry',
    method: 'GET',
    summary: 'Show the collector to which the spans of runs are sent',
    response: { 200: z.object({ telemetry }) },
  },
  {
    ...row,
    operationId: 'setTelemetry',
    audit: { request: [...AUDITED] },
    method: 'PUT',
    summary: 'Send the spans of runs to a collector from now on',
    role: 'owner',
    request: {
      body: z.strictObject({
        endpoint,
        headers: z
          .record(z.string(), z.string())
          .optional()
          .describe(
            'Headers of each request, such as the key of the collector: kept secret. Without it they stay as they are.',
          ),
        content: content.default(false),
      }),
    },
    response: { 200: z.object({ telemetry }) },
  },
  {
    ...row,
    operationId: 'deleteTelemetry',
    audit: {},
    method: 'DELETE',
    summary: 'Send no more spans, and forget the headers',
    role: 'owner',
    response: { 200: z.object({ deleted: z.literal(true) }) },
    errors: ['NOT_FOUND'],
  },
  {
    ...row,
    operationId: 'testTelemetry',
    method: 'POST',
    path: `${PATH}/test`,
    summary: 'Send one span to the collector, and show what it answered',
    role: 'owner',
    response: {
      200: z.object({
        success: z.boolean().describe('Whether the collector answered with a status of 200 to 299.'),
        status: z.int().nullable().describe('Status of its answer; null if there was none.'),
        answer: z.string().describe('The first 500 characters of its answer.'),
        problem: z.string().nullable().describe('Why the span was not taken; null if it was.'),
      }),
    },
    errors: ['NOT_FOUND'],
  },
]);
