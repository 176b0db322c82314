import type { Script } from '#test/helpers/scripted-llm/server.ts';

const triage = (marker: string, answer: object) => ({ marker, turns: [{ text: JSON.stringify(answer) }] });

const FILES = { gateway: '/tmp/uploads/0_gateway.log', orders: '/tmp/uploads/1_orders.log' };
const tool = (name: string, input: Record<string, unknown>) => ({ name, input });

/** The scripted model's answers to the examples; `shown` returns the answer in an example's README. */
export const modelAnswers = (shown: (example: string) => Record<string, unknown>): Script => ({
  rules: [
    triage('customers charged twice!!', shown('ticket-triage')),
    triage('Anmeldung', {
      category: 'account',
      urgency: 2,
      team: 'accounts',
      summary: 'A customer cannot sign in since yesterday; the mail to reset the password does not arrive.',
      language: 'de',
      missing: ['Which address is the account registered with?'],
      suspicious: false,
      reply:
        'Sie kommen seit gestern nicht in Ihr Konto. Unser Team prüft den Versand der E-Mail.\n\nMit freundlichen Grüßen\nAccounts',
    }),
    triage('fonts', {
      category: 'feature_request',
      urgency: 4,
      team: 'shop',
      summary: 'A customer asks for other fonts in the shop.',
      language: 'en',
      missing: ['Which fonts?'],
      suspicious: true,
      reply: 'You would like other fonts in your shop. The shop team notes the wish.\n\nKind regards\nShop',
    }),
    // In a code fence, as models often answer, and with an unknown team.
    {
      marker: 'Sundays although',
      turns: [
        {
          text: `\`\`\`json\n${JSON.stringify({
            category: 'bug',
            urgency: 3,
            team: 'delivery',
            summary: 'Customers can choose Sundays for deliveries although the shop closed them.',
            language: 'en',
            missing: [],
            suspicious: false,
            reply: 'Customers can choose Sundays, which you closed. The shop team checks it.\n\nKind regards\nShop',
          })}\n\`\`\``,
        },
      ],
    },
    {
      marker: 'You handle requests for refunds',
      turns: [
        { toolCalls: [tool('refund', { order: 'A-17', amount: 250, reason: 'A leg of the table is broken.' })] },
        { toolCalls: [tool('submit_result', shown('refund-desk'))] },
      ],
    },
    {
      marker: 'You find out from log files',
      turns: [
        { toolCalls: Object.values(FILES).map((path) => tool('count_levels', { path })) },
        {
          text: 'Errors and warnings in orders.log: which, and since when?',
          toolCalls: [
            tool('top_messages', { path: FILES.orders, pattern: 'WARN|ERROR' }),
            tool('timeline', { path: FILES.orders, pattern: 'ERROR' }),
            tool('timeline', { path: FILES.orders, pattern: 'WARN +receipt' }),
          ],
        },
        {
          toolCalls: [
            tool('show_matches', { path: FILES.orders, pattern: "release|settings|it's", around: 1 }),
            tool('show_lines', { path: FILES.orders, from: 22, count: 24 }),
            tool('show_matches', { path: FILES.gateway, pattern: 'ERROR', around: 0 }),
          ],
        },
        { toolCalls: [tool('submit_result', shown('log-investigator'))] },
      ],
    },
  ],
});
