import { operations } from '../operation.ts';

const columns = [
  'id',
  'agent',
  'kind',
  'title',
  'messages_today',
  'max_messages_per_day',
  'cost_today_usd',
  'expires_at',
];

export default operations([
  {
    name: 'create',
    operation: 'createChatLink',
    args: ['agent'],
    example: 'chat-link create main/reader --title "Ask us" --daily-budget-usd 2.50',
  },
  { name: 'list', operation: 'listChatLinks', list: 'chat_links', columns, example: 'chat-link list' },
  {
    name: 'update',
    operation: 'updateChatLink',
    example: 'chat-link update CHAT_LINK_ID --max-messages-per-day 500',
  },
  {
    name: 'revoke',
    operation: 'revokeChatLink',
    confirm: 'Revoke the chat link',
    example: 'chat-link revoke CHAT_LINK_ID --yes',
  },
]);
