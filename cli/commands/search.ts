import type { Configure } from '../cli.ts';
import { addOperation } from '../operation.ts';

const search: Configure = (command, cli) =>
  addOperation(command, cli, {
    name: 'search',
    operation: 'listPublicAgents',
    args: ['search'],
    columns: ['org_slug', 'name', 'version', 'type', 'description'],
    example: 'search invoices',
  });

export default search;
