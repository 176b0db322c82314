/** A body of an operation's request, and one of its answers by status. */
export interface Example {
  readonly request?: unknown;
  readonly responses?: Readonly<Record<string, unknown>>;
}

const id = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
const CREATED = '2026-01-15T09:30:00.000Z';
const UPDATED = '2026-01-15T09:31:00.000Z';

const callOfLoop = {
  data: { result: 'Two tickets are open.' },
  metadata: {
    request_id: 'req_00000000000000000000000000000001',
    processing_time_ms: 1250,
    version: 'v1',
    execution_time_ms: 1200,
    usage: { input_tokens: 640, output_tokens: 58 },
  },
};

const evaluated = {
  eval_id: id(1),
  agent_name: 'triage',
  version: 'v4',
  trigger: 'publish',
  opens_gate: true,
  baseline: 'v3',
  status: 'completed',
  verdict: 'passed',
  reason: null,
  suites: [
    {
      name: 'evals/refunds.yaml',
      description: 'Refunds',
      threshold: 0.9,
      repeat: 1,
      pass: 'all',
      judge: { model: 'claude-haiku-4-5' },
    },
  ],
  judge_prompt: '0123456789abcdef',
  counts: { cases: 12, runs: 24, done: 24, passed: 22, failed: 2, errors: 0 },
  budget_usd: 2,
  cost_usd: 0.0412,
  candidate: { passed: 11, failed: 1, undecided: 0, share: 0.917, interval: [0.646, 0.985] },
  baseline_cases: { passed: 11, failed: 1, undecided: 0, share: 0.917, interval: [0.646, 0.985] },
  observed_cases: { passed: 0, failed: 0, undecided: 1, share: null, interval: null },
  comparison: { pairs: 12, worse: 1, better: 1, p: 0.75 },
  repeats_needed: null,
  dashboard_url: `https://agents.example.com/dashboard/main/agents/triage/evals/${id(1)}`,
  created_by: 'user-1',
  created_at: CREATED,
  updated_at: UPDATED,
  ended_at: UPDATED,
} as const;
const evalUnderWay = {
  ...evaluated,
  ...{ status: 'running', verdict: null, candidate: null, baseline_cases: null, comparison: null },
  ...{ observed_cases: null, ended_at: null },
  ...{ counts: { cases: 12, runs: 24, done: 0, passed: 0, failed: 0, errors: 0 }, cost_usd: 0, updated_at: CREATED },
} as const;
const refundVars = { text: 'I want my money back.' };
const refundAssert = { type: 'equals', path: '$.label', value: 'refund' };

/**
 * Examples of bodies that the end-to-end suite of the local host never sends or gets, by `operationId`. Those of services' instances on
 * other machines are from AWS, the others from clients.
 */
export const WRITTEN_EXAMPLES: Readonly<Record<string, Example>> = {
  getOpenApi: { responses: { 200: { openapi: '3.1.0', info: { title: 'Agent Hosting Platform' }, paths: {} } } },
  getAgentOpenApi: {
    responses: {
      200: {
        openapi: '3.1.0',
        info: { title: 'acme/report', version: 'v3' },
        servers: [{ url: 'https://agents.example.org' }],
        paths: { '/acme/report/v3/run': { post: { operationId: 'run' } } },
      },
    },
  },
  getApiCatalog: {
    responses: {
      200: {
        linkset: [
          {
            anchor: 'https://agents.example.org/acme/report/latest',
            'service-desc': [
              { href: 'https://agents.example.org/acme/report/latest/openapi.json', type: 'application/json' },
            ],
          },
        ],
      },
    },
  },
  getEditorSchema: {
    responses: { 200: { $schema: 'http://json-schema.org/draft-07/schema#', type: 'object', required: ['name'] } },
  },
  deleteSession: { responses: { 200: { deleted: true } } },
  getSignInOptions: { responses: { 200: { oidc: { name: 'login.example.org', path: '/auth/oidc/start' } } } },
  listRunSteps: {
    responses: {
      200: {
        steps: [
          { position: 1, kind: 'step', text: 'check', number: 1, status: 'done', value: { total: 120 } },
          { position: 2, kind: 'ask_human', text: 'Refund 120 dollars?', number: 1, status: 'waiting', value: null },
        ],
        has_more: false,
      },
    },
  },
  putRunStep: {
    request: { position: 1, kind: 'step', text: 'check', number: 1, value: { total: 120 } },
    responses: {
      200: { position: 1, kind: 'step', text: 'check', number: 1, status: 'done', value: { total: 120 } },
    },
  },
  createInvite: {
    request: { email: 'ann@example.com', role: 'member' },
    responses: {
      200: {
        invite: {
          id: id(1),
          email: 'ann@example.com',
          role: 'member',
          created_at: CREATED,
          expires_at: '2026-01-22T09:30:00.000Z',
          email_sent: true,
          invite_url: 'https://agents.example.org/dashboard/invites/example',
        },
      },
    },
  },
  listBudgets: {
    responses: {
      200: {
        budgets: [
          {
            id: id(1),
            workspace_id: id(2),
            scope_type: 'agent',
            agent: 'acme/digest',
            window: 'daily',
            scope_id: id(3),
            soft_limit_usd: 5,
            hard_limit_usd: 10,
            action_on_hard_limit: 'block_new_runs',
            webhook_url: null,
            window_start: '2026-01-15T00:00:00.000Z',
            window_end: '2026-01-16T00:00:00.000Z',
            current_spend_usd: 2.5,
            spend: { models_usd: 2.25, credits_usd: 0, compute_usd: 0.25 },
            unpriced_runs: 0,
            soft_limit_pct: 50,
            hard_limit_pct: 25,
            thresholds: [{ threshold_kind: 'soft_limit', threshold_pct: 50, amount_usd: 2.5, alerted: true }],
            breach_status: 'none',
            burn_rate_usd_per_day: 6.3,
            projected_spend_usd: 6.3,
            projected_breach_at: null,
            created_at: '2026-01-10T08:00:00.000Z',
            updated_at: '2026-01-10T08:00:00.000Z',
          },
        ],
      },
    },
  },
  createEval: {
    request: {
      suites: {
        'evals/refunds.yaml':
          'threshold: 0.9\ntests:\n  - vars: { text: I want my money back. }\n    assert: [{ type: equals, path: $.label, value: refund }]\n',
      },
      baseline: 'v3',
      budget_usd: 2,
    },
    responses: { 202: evalUnderWay },
  },
  listEvals: { responses: { 200: { evals: [evaluated], next_cursor: null } } },
  getEval: { responses: { 200: evaluated } },
  abortEval: {
    responses: { 200: { ...evalUnderWay, status: 'aborted', reason: 'Aborted by user-1.', ended_at: UPDATED } },
  },
  listEvalCases: {
    responses: {
      200: {
        cases: [
          {
            number: 1,
            suite: 'evals/refunds.yaml',
            description: 'is about a refund',
            must: true,
            vars: refundVars,
            run: id(3),
            passed: true,
            runs: [
              {
                lane: 'candidate',
                version: 'v4',
                repeat: 1,
                run_id: id(2),
                status: 'passed',
                reason: null,
                score: 1,
                latency_ms: 840,
                cost_usd: 0.0017,
                asserts: [{ type: 'equals', metric: null, pass: true, score: 1, reason: 'passed', judge_run_id: null }],
              },
              {
                ...{ lane: 'observed', version: null, repeat: 1, run_id: id(3), status: 'error' },
                reason: `the recorded run ${id(3)} was erased`,
                ...{ score: 0, latency_ms: null, cost_usd: null, asserts: [] },
              },
            ],
          },
        ],
        next_cursor: null,
      },
    },
  },
  getEvalResults: {
    responses: {
      200: {
        evalId: id(1),
        results: {
          version: 3,
          timestamp: UPDATED,
          stats: { successes: 1, failures: 0, errors: 0 },
          results: [
            {
              vars: refundVars,
              provider: { id: 'triage@v4' },
              response: { output: { label: 'refund' } },
              error: null,
              success: true,
              score: 1,
              latencyMs: 840,
              cost: 0.0017,
              testIdx: 0,
              gradingResult: {
                pass: true,
                score: 1,
                reason: 'All assertions passed',
                componentResults: [{ pass: true, score: 1, reason: 'passed', assertion: refundAssert }],
              },
              testCase: { description: 'is about a refund', vars: refundVars, assert: [refundAssert] },
              metadata: { run_id: id(2), lane: 'candidate', repeat: 1 },
            },
          ],
        },
      },
    },
  },
  abortBulk: {
    responses: {
      200: {
        id: id(1),
        action: 'replay',
        status: 'aborted',
        message: null,
        filter: {
          agent_name: 'digest',
          status: 'failed',
          from: '2026-01-08T09:30:00.000Z',
          to: CREATED,
          top_level: true,
        },
        agent_version: 'v2',
        total: 40,
        total_is_exact: true,
        done: 12,
        skipped: 0,
        failed: 1,
        failures: [{ run_id: id(2), code: 'NOT_FOUND', message: 'This version of the agent was deleted.' }],
        created_by: id(3),
        created_at: CREATED,
        updated_at: UPDATED,
        ended_at: UPDATED,
      },
    },
  },
  listUpcoming: {
    responses: {
      200: {
        from: CREATED,
        to: '2026-01-22T09:30:00.000Z',
        slots: [
          {
            at: '2026-01-16T08:00:00.000Z',
            local: '2026-01-16T08:00',
            utc_offset: '+00:00',
            dst: null,
            schedule_id: id(1),
            agent_name: 'digest',
            agent_version: 'v1',
            timezone: 'UTC',
            overlap: null,
          },
        ],
        is_cut: false,
      },
    },
  },
  updateServiceVersion: {
    responses: {
      200: {
        service: {
          id: id(1),
          workspace_id: id(2),
          agent_id: id(3),
          agent_name: 'bot',
          agent_version: 'v2',
          service_name: 'bot',
          name: 'bot',
          desired_state: 'running',
          current_state: 'running',
          state: 'running',
          health_status: 'healthy',
          health: 'healthy',
          service_url: 'https://bot-000001.agents.example.org',
          service_tier: 'standard',
          service_tier_label: 'Standard (shared CPU)',
          min_instances: 1,
          max_instances: 1,
          overlap: true,
          command: null,
          args: null,
          restart_count: 0,
          consecutive_restart_failures: 0,
          max_restart_failures: 5,
          auto_paused_at: null,
          last_restart_at: null,
          last_deployed_at: UPDATED,
          deployed_at: UPDATED,
          last_error: null,
          alert_webhook_url: null,
          auto_update: true,
          env_json: { WORD: 'one' },
          env: { WORD: 'one' },
          secret_names: ['TOKEN'],
          created_at: CREATED,
          updated_at: UPDATED,
        },
        updated_to: 'v2',
      },
    },
  },
  bootInstance: {
    responses: {
      200: {
        serviceId: id(1),
        workspaceId: id(2),
        revision: 3,
        agent: 'acme/bot@v2',
        app: { kind: 'argv', argv: ['python', 'main.py'] },
        env: { WORD: 'one', PORT: '3000' },
        secrets: { TOKEN: 'example' },
        port: 3000,
        bundle: { key: 'bundles/example', sha256: '0'.repeat(64), url: 'https://store.example.org/bundles/example' },
        egress: 'open',
        limits: { memoryBytes: 536_870_912, diskBytes: 1_073_741_824, fileBytes: 268_435_456, processes: 256 },
      },
    },
  },
  reportInstance: {
    request: {
      reports: [
        {
          type: 'instance',
          serviceId: id(1),
          instanceId: id(2),
          revision: 3,
          sequence: 2,
          at: 1_768_469_460_000,
          startedAt: 1_768_469_400_000,
          phase: 'ready',
          isWorker: false,
          restarts: 0,
          failures: 0,
          steadyAt: null,
          lastEnd: null,
        },
      ],
    },
    responses: { 200: {} },
  },
  callLoop: {
    request: { question: 'Which tickets are open?' },
    responses: {
      200: callOfLoop,
      202: {
        run_id: id(1),
        status: 'running',
        url: `/workspaces/${id(2)}/runs/${id(1)}`,
        metadata: { request_id: 'req_00000000000000000000000000000001', version: 'v1' },
      },
    },
  },
};
