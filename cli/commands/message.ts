import { operations } from '../operation.ts';

export default operations([
  {
    name: 'list',
    operation: 'listMessages',
    list: 'messages',
    columns: ['id', 'level', 'title', 'agent_name', 'created_at'],
    example: 'message list',
  },
  {
    name: 'send',
    operation: 'sendMessage',
    args: ['title', 'body'],
    example: "message send 'Report ready' 'It has 3 pages.'",
  },
  {
    name: 'delete',
    operation: 'deleteMessage',
    confirm: 'Delete the message',
    example: "message delete 'Report ready' --yes",
  },
]);
