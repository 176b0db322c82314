import { BrainCircuit, Plus } from 'lucide-react';
import { useState } from 'react';
import type { ArgumentsOf } from '../../api/client.ts';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { Button } from '../../ui/button.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { ConfirmDialog, Dialog } from '../../ui/dialog.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select, TextField } from '../../ui/field.tsx';
import { objectOf } from '../../ui/json-object.ts';
import { Loading } from '../../ui/loading.tsx';
import { Code } from '../../ui/text/code.tsx';
import { SettingsFrame } from './settings-frame.tsx';

/** Model providers that the workspace has set up, besides those of the platform. No API returns a key. */
export function ProvidersPage() {
  const { id: workspace_id, role } = useWorkspace();
  const { data, error, refetch } = useOperation('listProviders', { params: { workspace_id } });
  const [isSetting, setSetting] = useState(false);
  const [deleting, setDeleting] = useState<string>();
  const remove = useAction('deleteProvider', { stale: ['listProviders'], silent: true });
  const isOwner = role === 'owner';
  return (
    <SettingsFrame
      part="providers"
      description="Further model providers that speak OpenAI's chat completions. Keys cannot be viewed after they are saved."
      actions={
        isOwner &&
        data && (
          <Button variant="primary" icon={Plus} onPress={() => setSetting(true)}>
            Set up provider
          </Button>
        )
      }
    >
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Providers"
          rows={data.providers}
          keyOf={({ name }) => name}
          columns={[
            { title: 'Provider', cell: ({ provider }) => <Code>{provider}</Code> },
            { title: 'Address', cell: ({ base_url }) => base_url ?? 'none', from: 'md' },
            { title: 'Key', cell: ({ has_key }) => (has_key ? 'saved' : 'none') },
            { title: 'Default model', cell: ({ default_model }) => default_model ?? 'none', from: 'sm' },
            { title: 'Updated', cell: ({ updated_at }) => <Time at={updated_at} />, from: 'md' },
            ...(isOwner
              ? [
                  {
                    title: 'Action',
                    cell: ({ name }: { readonly name: string }) => (
                      <Button variant="danger" aria-label={`Delete ${name}`} onPress={() => setDeleting(name)}>
                        Delete
                      </Button>
                    ),
                  },
                ]
              : []),
          ]}
          empty={
            <Empty icon={BrainCircuit} title="No further providers" command={`${COMMAND} providers set groq`}>
              Anthropic, OpenAI and Gemini need only a secret with their key. Set up others, such as Groq, OpenRouter or
              a server of your own, above or from a terminal:
            </Empty>
          }
        />
      )}
      {isSetting && data && <SetProvider presets={data.presets} onClose={() => setSetting(false)} />}
      <ConfirmDialog
        title={`Delete ${deleting}?`}
        isOpen={deleting !== undefined}
        onClose={() => setDeleting(undefined)}
        action="Delete provider"
        onConfirm={() => remove.mutateAsync({ params: { workspace_id, provider: deleting! } })}
      >
        Agents that name it will fail. Its key cannot be recovered.
      </ConfirmDialog>
    </SettingsFrame>
  );
}

interface Preset {
  readonly name: string;
  readonly title: string;
  readonly base_url: string | null;
}

type Prices = NonNullable<ArgumentsOf<'putProvider'>['body']['prices']>;

/** Choice for a provider that is not known by name. */
const OTHER = 'other';

function SetProvider({ presets, onClose }: { readonly presets: readonly Preset[]; readonly onClose: () => void }) {
  const { id: workspace_id } = useWorkspace();
  const [choice, setChoice] = useState(presets[0]?.name ?? OTHER);
  const [ownName, setOwnName] = useState('');
  const [address, setAddress] = useState('');
  const [key, setKey] = useState('');
  const [model, setModel] = useState('');
  const [prices, setPrices] = useState('');
  const set = useAction('putProvider', { stale: ['listProviders'], silent: true });

  const name = choice === OTHER ? ownName : choice;
  const preset = presets.find((each) => each.name === choice);
  const { value: givenPrices, problem } = prices.trim() === '' ? {} : objectOf(prices);
  const needsAddress = !preset?.base_url && address === '';
  const submit = async () => {
    const body = {
      ...(address !== '' && { base_url: address }),
      ...(key !== '' && { api_key: key }),
      ...(model !== '' && { default_model: model }),
      ...(givenPrices && { prices: givenPrices as Prices }),
    };
    try {
      await set.mutateAsync({ params: { workspace_id, provider: name }, body });
      // Discards the request, which holds the key.
      set.reset();
      onClose();
    } catch {
      // `set.error` holds the reason.
    }
  };
  return (
    <Dialog
      title="Set up a provider"
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Close</Button>
          <Button
            variant="primary"
            onPress={submit}
            isPending={set.isPending}
            isDisabled={name === '' || needsAddress || problem !== undefined}
          >
            Set up provider
          </Button>
        </>
      }
    >
      <Select
        label="Provider"
        value={choice}
        onChange={setChoice}
        choices={[
          ...presets.map(({ name: id, title }) => ({ id, label: title })),
          { id: OTHER, label: 'Another', description: "Any server with OpenAI's chat completions." },
        ]}
        description="Replaces an existing provider with this name."
      />
      {choice === OTHER && (
        <TextField
          label="Name"
          value={ownName}
          onChange={(text) => setOwnName(text.toLowerCase().replaceAll(/[^a-z0-9-]/g, '-'))}
          isMono
          description={`Agents name it openai-compatible:${ownName || 'name'}.`}
        />
      )}
      <TextField
        label="Address"
        value={address}
        onChange={setAddress}
        isMono
        placeholder={preset?.base_url ?? 'https://models.example.com/v1'}
        description="The part before /chat/completions."
      />
      <TextField label="Key" value={key} onChange={setKey} type="password" autoComplete="off" />
      <TextField label="Default model" value={model} onChange={setModel} isMono />
      <TextField
        label="Prices"
        value={prices}
        onChange={setPrices}
        lines={3}
        isMono
        placeholder={'{"model": {"input": 0.15, "output": 0.6}}'}
        description="JSON: US dollars per million tokens, by model. Without one, the platform's table applies."
        {...(problem !== undefined && { error: problem })}
      />
      {set.error && <ErrorBox error={set.error} />}
    </Dialog>
  );
}
