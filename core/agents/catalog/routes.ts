import * as z from 'zod';
import { defineRoutes } from '#core/http/route.ts';
import { download, publicAgent } from '../schema.ts';

export const catalogQuery = z.object({
  search: z.string().max(200).optional(),
  sort: z.enum(['stars', 'recent', 'name']).default('recent'),
  tags: z.string().max(500).optional().describe('Comma-separated; an agent must have them all.'),
  type: z.string().max(20).optional(),
  limit: z.coerce.number().int().min(1).max(500).default(200),
  offset: z.coerce.number().int().min(0).default(0),
});

export const catalogRoutes = defineRoutes([
  {
    operationId: 'listPublicAgents',
    method: 'GET',
    path: '/public/agents',
    summary: 'List public agents',
    fn: 'catalog',
    auth: 'public',
    request: { query: catalogQuery },
    response: { 200: z.array(publicAgent) },
  },
  {
    operationId: 'getPublicAgent',
    method: 'GET',
    path: '/public/agents/{org}/{agent}/{version}',
    summary: 'Show a public agent',
    fn: 'catalog',
    auth: 'public',
    response: { 200: publicAgent },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'downloadAgent',
    method: 'GET',
    path: '/public/agents/{org}/{agent}/{version}/download',
    summary: 'Download a source-available public agent for local execution',
    fn: 'catalog',
    auth: 'public',
    response: { 200: download },
    errors: ['NOT_FOUND', 'DOWNLOAD_DISABLED', 'PAID_AGENT_SERVER_ONLY'],
  },
]);
