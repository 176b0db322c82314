import type { Configure } from '../cli.ts';
import { addOperation } from '../operation.ts';

const runs: Configure = (command, cli) =>
  addOperation(command, cli, {
    name: 'runs',
    operation: 'listRuns',
    list: 'runs',
    columns: [
      'id',
      'agent_name',
      'agent_version',
      'status',
      'trigger_source',
      'started_at',
      'duration_ms',
      'error_message',
    ],
    example: 'runs --status failed --agent-name hello',
  });

export default runs;
