import { PiggyBank, Plus } from 'lucide-react';
import { useState } from 'react';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { Button } from '../../ui/button.tsx';
import { count, Money, usd } from '../../ui/data/numbers.tsx';
import { Badge, type Tone } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Section } from '../../ui/page.tsx';
import { type Budget, BudgetForm } from './budget-form.tsx';

const WINDOWS = { daily: 'a day', weekly: 'a week', monthly: 'a month' };
const AT_LIMIT = {
  alert_only: 'only alerts',
  block_new_runs: 'refuses new calls',
  pause_service: 'pauses services',
};

const nameOf = ({ agent, window }: Pick<Budget, 'agent' | 'window'>): string =>
  `${agent ?? 'The workspace'}, ${WINDOWS[window]}`;

/** Spending limits of the workspace and its agents. */
export function Budgets() {
  const { id: workspace_id, role } = useWorkspace();
  const { data, error, refetch } = useOperation(
    'listBudgets',
    { params: { workspace_id } },
    { refetchInterval: 30_000 },
  );
  const [shown, setShown] = useState<{ readonly of?: Budget }>();
  const [deleting, setDeleting] = useState<Budget>();
  const remove = useAction('deleteBudget', { stale: ['listBudgets'], silent: true });
  const isOwner = role === 'owner';
  return (
    <>
      <Section
        title="Budgets"
        isFramed={false}
        description="Budgets alert at 50%, 80% and 100% of a limit. At 100% of the hard limit, the chosen action applies."
        actions={
          isOwner && (
            <Button variant="primary" icon={Plus} onPress={() => setShown({})}>
              Create budget
            </Button>
          )
        }
      >
        {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
        {!data && !error && <Loading />}
        {data?.budgets.length === 0 && (
          <Empty
            icon={PiggyBank}
            title="No budgets yet"
            command={`${COMMAND} budget create workspace monthly --hard-limit-usd 100`}
          >
            A budget limits spending on models, credits and compute. Create one above, or from a terminal:
          </Empty>
        )}
        {data && data.budgets.length > 0 && (
          <ul className="grid grid-cols-1 gap-3 lg:grid-cols-2">
            {data.budgets.map((budget) => (
              <BudgetCard
                key={budget.id}
                budget={budget}
                onEdit={isOwner ? () => setShown({ of: budget }) : undefined}
                onDelete={isOwner ? () => setDeleting(budget) : undefined}
              />
            ))}
          </ul>
        )}
      </Section>
      <Alerts />
      {shown && <BudgetForm of={shown.of} onClose={() => setShown(undefined)} />}
      <ConfirmDialog
        title={`Delete the budget of ${deleting && nameOf(deleting)}?`}
        isOpen={deleting !== undefined}
        onClose={() => setDeleting(undefined)}
        action="Delete budget"
        onConfirm={() => remove.mutateAsync({ params: { workspace_id, budget_id: deleting!.id } })}
      >
        This spending is no longer limited. Past alerts are kept.
      </ConfirmDialog>
    </>
  );
}

const BREACHES: Readonly<Record<Budget['breach_status'], readonly [word: string, tone: Tone]>> = {
  none: ['Within limits', 'good'],
  soft_limit: ['Over the soft limit', 'warn'],
  hard_limit: ['Over the hard limit', 'bad'],
};

function BudgetCard({
  budget,
  onEdit,
  onDelete,
}: {
  readonly budget: Budget;
  readonly onEdit?: () => void;
  readonly onDelete?: () => void;
}) {
  const { current_spend_usd: spent, soft_limit_usd: soft, hard_limit_usd: hard, spend, unpriced_runs } = budget;
  const [word, tone] = BREACHES[budget.breach_status];
  const name = nameOf(budget);
  return (
    <li className="flex min-w-0 flex-col gap-2 rounded-lg border border-line bg-raised p-4">
      <div className="flex flex-wrap items-center gap-2">
        <h3 className="min-w-0 grow font-semibold">{name}</h3>
        <Badge tone={tone}>{word}</Badge>
      </div>
      <p>
        <span className="text-lg font-semibold">{usd(spent)}</span> of {usd((hard ?? soft)!)}
        {hard !== null && soft !== null && <span className="text-soft">, soft limit {usd(soft)}</span>}
      </p>
      <Bar label={`Spent of ${name}`} spent={spent} soft={soft} hard={hard} tone={tone} />
      <p className="text-xs text-soft">
        Models {usd(spend.models_usd)}, credits {usd(spend.credits_usd)}, compute {usd(spend.compute_usd)}
        {unpriced_runs > 0 && `, excluding ${count(unpriced_runs)} runs without a known price`}. At this rate{' '}
        {usd(budget.projected_spend_usd)} by its end <Time at={budget.window_end} />
        {budget.projected_breach_at && (
          <>
            , and at the limit <Time at={budget.projected_breach_at} />
          </>
        )}
        .
      </p>
      <p className="text-xs text-soft">
        At the hard limit it{' '}
        {hard === null ? 'does nothing, because none is set' : AT_LIMIT[budget.action_on_hard_limit]}.
        {budget.webhook_url && ` Alerts go to ${budget.webhook_url}.`}
      </p>
      {onEdit && onDelete && (
        <div className="flex gap-2">
          <Button aria-label={`Edit the budget of ${name}`} onPress={onEdit}>
            Edit
          </Button>
          <Button variant="danger" aria-label={`Delete the budget of ${name}`} onPress={onDelete}>
            Delete
          </Button>
        </div>
      )}
    </li>
  );
}

const FILLS: Readonly<Record<Tone, string>> = {
  good: 'bg-good',
  warn: 'bg-warn',
  bad: 'bg-bad',
  info: 'bg-info',
  plain: 'bg-soft',
};

function Bar({
  label,
  spent,
  soft,
  hard,
  tone,
}: {
  readonly label: string;
  readonly spent: number;
  readonly soft: number | null;
  readonly hard: number | null;
  readonly tone: Tone;
}) {
  const limit = (hard ?? soft)!;
  const part = (value: number) => `${Math.min(100, (100 * value) / limit)}%`;
  return (
    // biome-ignore lint/a11y/useSemanticElements: not every browser shows a meter in the colours of the theme.
    <div
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={limit}
      aria-valuenow={Math.min(spent, limit)}
      aria-valuetext={`${usd(spent)} of ${usd(limit)}`}
      className="relative h-2 overflow-hidden rounded bg-hover"
    >
      <div className={`h-full ${FILLS[tone]}`} style={{ width: part(spent) }} />
      {hard !== null && soft !== null && (
        <div aria-hidden className="absolute inset-y-0 w-0.5 bg-edge" style={{ left: part(soft) }} />
      )}
    </div>
  );
}

const SEVERITIES: Readonly<Record<string, Tone>> = { info: 'info', warning: 'warn', critical: 'bad' };

function Alerts() {
  const { id: workspace_id } = useWorkspace();
  const { data, error, refetch } = useOperation('listBudgetAlerts', { params: { workspace_id } });
  return (
    <Section title="Alerts" isFramed={false}>
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Alerts"
          rows={data.alerts}
          keyOf={({ id }) => id}
          columns={[
            { title: 'When', cell: ({ created_at }) => <Time at={created_at} /> },
            { title: 'Severity', cell: ({ severity }) => <Badge tone={SEVERITIES[severity]}>{severity}</Badge> },
            { title: 'What', cell: ({ message }) => message },
            {
              title: 'Spent',
              cell: ({ current_spend_usd }) => <Money usd={Number(current_spend_usd)} />,
              isNumber: true,
              from: 'sm',
            },
            {
              title: 'Sent',
              cell: ({ delivery, delivery_problem }) => (delivery === 'failed' ? delivery_problem : delivery),
              from: 'md',
            },
          ]}
          empty={<p className="text-soft">No alerts yet. Budgets alert at 50%, 80% and 100% of their limits.</p>}
        />
      )}
    </Section>
  );
}
