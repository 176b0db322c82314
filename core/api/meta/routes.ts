import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';

export const metaRoutes = defineRoutes([
  {
    operationId: 'getHealth',
    method: 'GET',
    path: '/health',
    summary: 'Tell that the platform answers',
    fn: 'meta',
    auth: 'public',
    response: { 200: z.object({ status: z.literal('ok') }) },
  },
  {
    operationId: 'getOpenApi',
    method: 'GET',
    path: '/openapi.json',
    summary: 'This document',
    fn: 'meta',
    auth: 'public',
    response: { 200: z.record(z.string(), z.unknown()) },
  },
]);
