import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';
import { bootDocumentShape, reportsShape } from './schema.ts';

const row = { fn: 'service-instances', method: 'POST', auth: 'instance', storesNothing: true } as const;

/** For instances on other machines than the platform; a single machine calls the same functions in its own process. */
export const instanceRoutes = defineRoutes([
  {
    ...row,
    operationId: 'bootInstance',
    path: '/runner/services/{service_id}/boot',
    summary: 'Get what an instance of a service needs to start its app',
    response: { 200: bootDocumentShape },
    errors: ['NOT_FOUND', 'FORBIDDEN', 'MISSING_SECRETS'],
  },
  {
    ...row,
    operationId: 'reportInstance',
    path: '/runner/services/{service_id}/reports',
    summary: 'Report the state of an instance of a service',
    request: { body: reportsShape },
    response: { 200: z.object({}) },
  },
]);
