import { useState } from 'react';
import { useAgents } from '../../api/agents.ts';
import type { AnswerOf } from '../../api/client.ts';
import { useAction } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select, TextField } from '../../ui/field.tsx';

export type Budget = AnswerOf<'listBudgets'>['budgets'][number];

const WINDOWS = [
  { id: 'daily', label: 'A day' },
  { id: 'weekly', label: 'A week', description: 'Starts on Monday' },
  { id: 'monthly', label: 'A month' },
];
const ACTIONS = [
  { id: 'alert_only', label: 'Alert only' },
  { id: 'block_new_runs', label: 'Refuse new calls', description: 'Running calls and their sub-calls continue' },
  {
    id: 'pause_service',
    label: 'Pause services',
    description: 'Within a minute. They stay paused until an owner starts them',
  },
];
const WORKSPACE = '';

const textOf = (usd: number | null | undefined): string => (usd === null || usd === undefined ? '' : String(usd));
/** Parses an amount: null if empty, NaN if invalid. */
const amountOf = (text: string): number | null => (text.trim() === '' ? null : Number(text));

/** Creates or edits a budget. The scope and window of an existing budget are fixed. */
export function BudgetForm({ of, onClose }: { readonly of: Budget | undefined; readonly onClose: () => void }) {
  const { id: workspace_id } = useWorkspace();
  const agents = useAgents({ enabled: of === undefined, staleTime: 30_000 });
  const [scope, setScope] = useState(WORKSPACE);
  const [window, setWindow] = useState('monthly');
  const [soft, setSoft] = useState(textOf(of?.soft_limit_usd));
  const [hard, setHard] = useState(textOf(of?.hard_limit_usd));
  const [action, setAction] = useState<Budget['action_on_hard_limit']>(of?.action_on_hard_limit ?? 'alert_only');
  const [webhook, setWebhook] = useState(of?.webhook_url ?? '');
  const create = useAction('createBudget', { stale: ['listBudgets', 'listBudgetAlerts'], silent: true });
  const update = useAction('updateBudget', { stale: ['listBudgets', 'listBudgetAlerts'], silent: true });
  const limits = { soft_limit_usd: amountOf(soft), hard_limit_usd: amountOf(hard) };
  const isWrong = (text: string) => text.trim() !== '' && !(Number(text) >= 0.01);
  const isReady = (soft.trim() !== '' || hard.trim() !== '') && !isWrong(soft) && !isWrong(hard);
  const submit = async () => {
    const changes = { ...limits, action_on_hard_limit: action, webhook_url: webhook.trim() || null };
    try {
      if (of !== undefined) {
        await update.mutateAsync({ params: { workspace_id, budget_id: of.id }, body: changes });
      } else {
        const whose =
          scope === WORKSPACE
            ? { scope_type: 'workspace' as const }
            : { scope_type: 'agent' as const, scope_id: scope };
        await create.mutateAsync({
          params: { workspace_id },
          body: { ...changes, ...whose, window: window as Budget['window'] },
        });
      }
      onClose();
    } catch {
      // `create.error` or `update.error` holds the reason.
    }
  };
  const error = create.error ?? update.error;
  return (
    <Dialog
      title={of === undefined ? 'Create a budget' : 'Edit the budget'}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Close</Button>
          <Button
            variant="primary"
            onPress={submit}
            isPending={create.isPending || update.isPending}
            isDisabled={!isReady}
          >
            {of === undefined ? 'Create budget' : 'Save budget'}
          </Button>
        </>
      }
    >
      {of === undefined && (
        <>
          <Select
            label="Scope"
            choices={[
              { id: WORKSPACE, label: 'The whole workspace' },
              ...(agents.rows ?? []).map(({ id, name }) => ({ id, label: name })),
            ]}
            value={scope}
            onChange={setScope}
          />
          <Select label="Period" choices={WINDOWS} value={window} onChange={setWindow} description="In UTC." />
        </>
      )}
      <TextField
        label="Soft limit (USD)"
        value={soft}
        onChange={setSoft}
        inputMode="decimal"
        description="Alerts at 50%, 80% and 100%. Leave empty for no limit."
        error={isWrong(soft) ? 'An amount from 0.01, such as 80' : undefined}
      />
      <TextField
        label="Hard limit (USD)"
        value={hard}
        onChange={setHard}
        inputMode="decimal"
        description="Alerts at 50%, 80% and 100%. Leave empty for no limit."
        error={isWrong(hard) ? 'An amount from 0.01, such as 100' : undefined}
      />
      <Select
        label="At 100% of the hard limit"
        choices={ACTIONS}
        value={action}
        onChange={(value) => setAction(value as Budget['action_on_hard_limit'])}
      />
      <TextField
        label="Alert webhook URL (optional)"
        value={webhook}
        onChange={setWebhook}
        placeholder="https://example.com/alerts"
        description="Signed with the workspace's signing secret."
      />
      {error && <ErrorBox error={error} />}
    </Dialog>
  );
}
