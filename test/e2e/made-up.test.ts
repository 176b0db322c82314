import { expect, test } from 'vitest';
import { fullest, madeUp } from './made-up.ts';

const A = '3c1f0b52-7f55-4a0e-9d3e-0f2a7c3b9d11';
const B = '8d2f4a10-1c77-4b5e-8f6a-5e0c1b2a3d44';

test('ids, keys, hashes, addresses and tokens are made up, and what was equal stays equal', () => {
  const body = {
    id: A,
    path: `/runs/${B}/of/${A}`,
    key: `sk_live_${'x1'.repeat(25)}`,
    prefix: 'sk_agent_9tH',
    hash: 'a1'.repeat(32),
    token: 'Xqj10f4SfWJ8lvALS_lrJza5uroU9bwUPDFNJr3fJ2M',
    url: 'http://127.0.0.1:43121/pay/cs_test_f5c9a32756b3',
    service_url: 'http://bot-29243d.localhost:43121',
  };
  expect(madeUp(body)).toEqual({
    id: '00000000-0000-4000-8000-000000000001',
    path: '/runs/00000000-0000-4000-8000-000000000002/of/00000000-0000-4000-8000-000000000001',
    key: 'sk_live_example',
    prefix: 'sk_agent_example',
    hash: `${'0'.repeat(63)}1`,
    token: 'example',
    url: 'https://agents.example.org/pay/cs_test_example',
    service_url: 'https://bot-000001.agents.example.org',
  });
});

test('times keep their order and their long distances; measurements are constants', () => {
  const body = {
    expires_at: '2027-03-09T10:11:12.134Z',
    created_at: '2027-03-02T10:11:12.345Z',
    updated_at: '2027-03-02T10:11:12.399Z',
    duration_ms: 37,
    timeout_ms: 5000,
    date: '2027-03-02',
    size_bytes: 2048,
    address: '10.1.2.3',
  };
  expect(madeUp(body)).toEqual({
    created_at: '2026-01-15T09:30:00.000Z',
    updated_at: '2026-01-15T09:30:01.000Z',
    expires_at: '2026-01-22T09:30:01.000Z',
    duration_ms: 120,
    timeout_ms: 5000,
    date: '2026-01-15',
    size_bytes: 2048,
    address: '203.0.113.7',
  });
});

test('of objects the fullest stays, of several the shortest', () => {
  expect(madeUp({ list: [{ a: 1 }, { a: 'long text', b: 2 }, { a: 1, b: 2 }], names: ['a', 'b', 'c', 'd'] })).toEqual({
    list: [{ a: 1, b: 2 }],
    names: ['a', 'b', 'c'],
  });
  expect(fullest([{ data: { a: 1, b: 2, c: 3 } }, { data: { a: 1 }, next: 'x' }])).toEqual({
    data: { a: 1 },
    next: 'x',
  });
});
