import * as z from 'zod';
import { defineRoutes, raw } from '#core/http/route.ts';

export const agentDocumentRoutes = defineRoutes([
  {
    operationId: 'getAgentOpenApi',
    method: 'GET',
    path: '/{org}/{agent}/{version}/openapi.json',
    summary: 'The OpenAPI description of one agent: its endpoints, its input and its output',
    fn: 'catalog',
    auth: 'optional',
    request: {
      headers: z.object({
        'if-none-match': z.string().optional().describe('The ETag of a copy: an unchanged document is answered 304.'),
      }),
    },
    response: { 200: raw('application/json'), 304: raw() },
    errors: ['NOT_FOUND', 'UNPROCESSABLE'],
  },
  {
    operationId: 'getApiCatalog',
    method: 'GET',
    path: '/.well-known/api-catalog',
    summary: 'Links to the descriptions of the API and of the newest public agents (RFC 9727)',
    fn: 'catalog',
    auth: 'public',
    response: { 200: raw('application/linkset+json') },
  },
]);
