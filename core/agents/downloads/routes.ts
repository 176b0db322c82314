import { defineRoutes, raw } from '#core/http/route.ts';

export const downloadRoutes = defineRoutes([
  {
    operationId: 'downloadOwnBundle',
    method: 'GET',
    path: '/agents/{id}/bundle',
    summary: 'Download the code bundle of a version of your own',
    fn: 'downloads',
    auth: 'key',
    role: 'owner',
    stream: true,
    response: { 200: raw('application/zip') },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'downloadBundle',
    method: 'GET',
    path: '/public/agents/{org}/{agent}/{version}/bundle',
    summary: 'Download the code bundle of a source-available public agent',
    fn: 'downloads',
    auth: 'public',
    stream: true,
    response: { 200: raw('application/zip') },
    errors: ['NOT_FOUND', 'DOWNLOAD_DISABLED', 'PAID_AGENT_SERVER_ONLY'],
  },
]);
