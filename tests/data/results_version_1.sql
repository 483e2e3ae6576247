-- Results of schema version 1: two campaigns on two small instances, most ways to fail among them.
BEGIN TRANSACTION;
CREATE TABLE bounds (             -- every lower bound reported in time
  run TEXT NOT NULL REFERENCES runs(id),
  number INTEGER NOT NULL,
  time_s REAL NOT NULL,
  value TEXT NOT NULL,
  value_float REAL NOT NULL,
  PRIMARY KEY (run, number)
) WITHOUT ROWID;
INSERT INTO "bounds" VALUES('118d3c94ea42c25ae87ce3efc4bba6c8193a524ec45eb4b4a5d5f219dd2ec6a3',0,1.36978368000200134702e-01,'3',3.0);
INSERT INTO "bounds" VALUES('4dcd80b75d83787d03592a5dbcdd5ccb68a4923b0ff06081cce1c5650aa9bb04',0,1.04966908000278635881e-01,'1000000000.0',1000000000.0);
INSERT INTO "bounds" VALUES('4e887562b46d6884515435a2c475532ab5bb8d204440a8db94bfef6942c07998',0,1.18081208000148762948e-01,'2',2.0);
INSERT INTO "bounds" VALUES('4e887562b46d6884515435a2c475532ab5bb8d204440a8db94bfef6942c07998',1,1.18081208000148762948e-01,'1.5',1.5);
INSERT INTO "bounds" VALUES('776da8d1814d12b907d6cbef3dc6b830cebf50f7a77b631dae07e82dea159df3',0,1.51027242000054684467e-01,'3',3.0);
INSERT INTO "bounds" VALUES('a27620c82b0b12c6ec8b59cb24fa516d25cc03f11470e627fa38a6e20c3156ef',0,1.36471657000583945773e-01,'7.999999999992',7.999999999992);
INSERT INTO "bounds" VALUES('a27620c82b0b12c6ec8b59cb24fa516d25cc03f11470e627fa38a6e20c3156ef',1,1.63619679000476025976e-01,'10.999988994531254',1.09999889945312538945e+01);
INSERT INTO "bounds" VALUES('ae70d0cbdee77295eb0f9f142418aa1c52df8c523f7593721a60eadc0523bbf2',0,1.09697378000419121235e-01,'7.999999999992',7.999999999992);
INSERT INTO "bounds" VALUES('b4a222e8fd37ef9b02791e473426d49cc622795cd4634bc20df4616c327e5c73',0,1.45567379000567598268e-01,'7.999999999992',7.999999999992);
INSERT INTO "bounds" VALUES('b4a222e8fd37ef9b02791e473426d49cc622795cd4634bc20df4616c327e5c73',1,2.4864583400085393805e-01,'10.999988987500013',1.09999889875000125273e+01);
INSERT INTO "bounds" VALUES('c2c95882578a5c657ea2ee76e58cb217e4125c47af0ac494f5a30ac91e091245',0,1.14003456999853369779e-01,'7.999999999992',7.999999999992);
CREATE TABLE campaigns (          -- one call of `shardmark run`
  id INTEGER PRIMARY KEY,
  started TEXT NOT NULL,          -- UTC, ISO 8601
  command TEXT NOT NULL,          -- JSON list of arguments
  version TEXT NOT NULL,          -- of shardmark
  host TEXT NOT NULL              -- JSON object: cpu, cores, memory_mib, os, python, packages
);
INSERT INTO "campaigns" VALUES(1,'2026-11-21T09:02:26+00:00','["shardmark", "run", "--results", "v1", "--instance", "triangle", "--instance", "chain", "--solver", "greedy", "--solver", "random", "--solver", "cfn-relaxed", "--solver", "simple", "--solver", "brkga-100", "--solver", "exact", "--solver", "bottleneck", "--solver", "random-1", "--seeds", "2", "--timeout", "1", "--quiet", "--json"]','0.1.0','{"cpu": "AMD EPYC", "cores": 2, "memory_mib": 24105, "os": "Linux 6.1.0", "python": "3.11.7", "packages": {"numpy": "2.4.6", "ortools": "9.15.6755", "polars": "2.1.0", "pyscipopt": "6.3.0", "pytoulbar2": "1.4.0.1"}}');
INSERT INTO "campaigns" VALUES(2,'2026-11-21T09:02:31+00:00','["shardmark", "run", "--results", "v1", "--instance", "chain", "--solver-path", "shardmark/tests/harness/zoo/zoo.py", "--solver", "good", "--solver", "hangs", "--solver", "raises", "--solver", "segfaults", "--solver", "declines", "--solver", "nonsense", "--solver", "nan", "--solver", "liar", "--solver", "cyclic", "--solver", "bounds", "--solver", "silent", "--timeout", "1", "--quiet", "--json"]','0.1.0','{"cpu": "AMD EPYC", "cores": 2, "memory_mib": 24105, "os": "Linux 6.1.0", "python": "3.11.7", "packages": {"numpy": "2.4.6", "ortools": "9.15.6755", "polars": "2.1.0", "pyscipopt": "6.3.0", "pytoulbar2": "1.4.0.1"}}');
CREATE TABLE incumbents (         -- every solution reported in time
  run TEXT NOT NULL REFERENCES runs(id),
  number INTEGER NOT NULL,        -- 0, 1, ... in the order of arrival
  time_s REAL NOT NULL,           -- arrival at the referee after the start of the process
  feasible INTEGER NOT NULL,
  cost TEXT,                      -- verified, decimal text; NULL if malformed
  cost_float REAL,
  PRIMARY KEY (run, number)
) WITHOUT ROWID;
INSERT INTO "incumbents" VALUES('04004c268f17a4118cb5c426c392ba12b3a34ed7bb36714a2995dcb6f9811269',0,1.58385061999069876037e-01,1,'8',8.0);
INSERT INTO "incumbents" VALUES('04004c268f17a4118cb5c426c392ba12b3a34ed7bb36714a2995dcb6f9811269',1,1.58523869000418926589e-01,1,'6',6.0);
INSERT INTO "incumbents" VALUES('4dcd80b75d83787d03592a5dbcdd5ccb68a4923b0ff06081cce1c5650aa9bb04',0,1.04966908000278635881e-01,1,'16.0',16.0);
INSERT INTO "incumbents" VALUES('62cf952441dd067a28b22c9db27ddb164780af4bd8d59ccadd6dccc356e5014a',0,1.52281354001388535834e-01,1,'7',7.0);
INSERT INTO "incumbents" VALUES('62cf952441dd067a28b22c9db27ddb164780af4bd8d59ccadd6dccc356e5014a',1,1.54155129999708151444e-01,1,'6',6.0);
INSERT INTO "incumbents" VALUES('8102cf3177e12e2519febd731b90265feb66e8600dc5bd1e1ed707da87893334',0,0.177029724998647,1,'7',7.0);
INSERT INTO "incumbents" VALUES('8102cf3177e12e2519febd731b90265feb66e8600dc5bd1e1ed707da87893334',1,1.78922759998386027291e-01,1,'6',6.0);
INSERT INTO "incumbents" VALUES('85211528be3998013d56ff1d0069e0e343b5917d7442e6dd0be1710791723891',0,1.48107756000172230415e-01,1,'7',7.0);
INSERT INTO "incumbents" VALUES('85211528be3998013d56ff1d0069e0e343b5917d7442e6dd0be1710791723891',1,1.48858856999140698462e-01,1,'6',6.0);
INSERT INTO "incumbents" VALUES('8d6b9f06291765fe8ca36b184288efeb60075d72a03e4a306df9f15ef9d0269a',0,1.05667242998606525361e-01,0,'25.0',25.0);
INSERT INTO "incumbents" VALUES('90b793b32250ccfd430fdd5a0fb04505b2df0e4a9107c3bc66340123046b5bc6',0,1.18389503000798868015e-01,1,'11.0',11.0);
INSERT INTO "incumbents" VALUES('a27620c82b0b12c6ec8b59cb24fa516d25cc03f11470e627fa38a6e20c3156ef',0,1.43373236000115866772e-01,1,'11.0',11.0);
INSERT INTO "incumbents" VALUES('ae70d0cbdee77295eb0f9f142418aa1c52df8c523f7593721a60eadc0523bbf2',0,1.09576296999875921756e-01,1,'16.0',16.0);
INSERT INTO "incumbents" VALUES('ae70d0cbdee77295eb0f9f142418aa1c52df8c523f7593721a60eadc0523bbf2',1,0.109618890001002,1,'11.0',11.0);
INSERT INTO "incumbents" VALUES('ae96463213c7c6f5ff3f40c9a186cffb49d4a4d681855abbbc5c5c25b87b9ca5',0,1.26682648000496556051e-01,1,'11.0',11.0);
INSERT INTO "incumbents" VALUES('b4a222e8fd37ef9b02791e473426d49cc622795cd4634bc20df4616c327e5c73',0,1.54593048000606358982e-01,1,'11.0',11.0);
INSERT INTO "incumbents" VALUES('dcc98e171b3c936b94f29abb630790ebcc07ac71cde24046a2a675568948e420',0,1.08985373999530565924e-01,1,'16.0',16.0);
INSERT INTO "incumbents" VALUES('e047087267d22d47d80c53ddb6fcbccc7223799c3e7c6bc8bcdf7d5d449d0f54',0,1.32771409000270068645e-01,1,'16.0',16.0);
INSERT INTO "incumbents" VALUES('eee8cd2c0edf8cf4ce506204697f27964a7b4fdc03a9941ded92572133044656',0,1.16625005000969395041e-01,1,'11.0',11.0);
INSERT INTO "incumbents" VALUES('f7f90a3f8c478af68bcece49bb67e8b098086a05e5bb09ea8bdc3ef01039a799',0,1.07944426001267856918e-01,0,NULL,NULL);
INSERT INTO "incumbents" VALUES('f7f90a3f8c478af68bcece49bb67e8b098086a05e5bb09ea8bdc3ef01039a799',1,1.07944426001267856918e-01,0,NULL,NULL);
INSERT INTO "incumbents" VALUES('f7f90a3f8c478af68bcece49bb67e8b098086a05e5bb09ea8bdc3ef01039a799',2,1.07944426001267856918e-01,0,NULL,NULL);
INSERT INTO "incumbents" VALUES('fd04681ef84f12e09f9f7df2ddd67aeaf80dbf8358e0407bc6edf4b3be2abd35',0,1.52135801999975228682e-01,1,'11.0',11.0);
CREATE TABLE instances (          -- what was solved; a row a content, so that pages need no instance files
  checksum TEXT PRIMARY KEY,      -- SHA-256 of the decompressed file, and its options
  id TEXT NOT NULL,               -- catalog id, or the file's name
  track TEXT NOT NULL,
  summary TEXT NOT NULL,          -- JSON object: facts from Instance.summary()
  published TEXT NOT NULL         -- JSON object: catalog facts (best_cost, lower_bound as decimal text, source, ...)
);
INSERT INTO "instances" VALUES('20fc292f6d886f03abe15e58dc863c828ab560bd6831403cac243e2000422176','triangle','intraop','{"track": "intraop", "name": "triangle", "nodes": 3, "edges": 1, "largest_arity": 3, "largest_degree": 1, "strategies": 6, "largest_menu": 2, "edge_costs": 8, "largest_cost": 3, "time_steps": 5, "usage_limit": 11, "least_peak_usage": 9, "simple_bound": 3}','{"best_cost": "6", "best_cost_source": "enumeration of its 8 solutions", "lower_bound": "6", "lower_bound_source": "enumeration of its 8 solutions"}');
INSERT INTO "instances" VALUES('44826f64a900c51f44247bb50b40c73976c29cece82ee6a3870c26205b087fb4','chain','pipeline','{"track": "pipeline", "name": "chain", "nodes": 5, "edges": 4, "largest_outdegree": 1, "sources": 1, "sinks": 1, "stages": 2, "bandwidth": 1.0, "memory": null, "total_work": 16.0, "largest_work": 4.0, "total_output": 15.0, "total_params": 0.0, "simple_bound": 7.999999999992}','{"best_cost": "11", "best_cost_source": "enumeration of all partitions", "lower_bound": "11", "lower_bound_source": "enumeration of all partitions"}');
CREATE TABLE matrix (             -- which runs a campaign was about, those that were there already among them
  campaign INTEGER NOT NULL REFERENCES campaigns(id),
  run TEXT NOT NULL,
  PRIMARY KEY (campaign, run)
) WITHOUT ROWID;
INSERT INTO "matrix" VALUES(1,'04004c268f17a4118cb5c426c392ba12b3a34ed7bb36714a2995dcb6f9811269');
INSERT INTO "matrix" VALUES(1,'118d3c94ea42c25ae87ce3efc4bba6c8193a524ec45eb4b4a5d5f219dd2ec6a3');
INSERT INTO "matrix" VALUES(1,'62cf952441dd067a28b22c9db27ddb164780af4bd8d59ccadd6dccc356e5014a');
INSERT INTO "matrix" VALUES(1,'776da8d1814d12b907d6cbef3dc6b830cebf50f7a77b631dae07e82dea159df3');
INSERT INTO "matrix" VALUES(1,'8102cf3177e12e2519febd731b90265feb66e8600dc5bd1e1ed707da87893334');
INSERT INTO "matrix" VALUES(1,'85211528be3998013d56ff1d0069e0e343b5917d7442e6dd0be1710791723891');
INSERT INTO "matrix" VALUES(1,'90b793b32250ccfd430fdd5a0fb04505b2df0e4a9107c3bc66340123046b5bc6');
INSERT INTO "matrix" VALUES(1,'a27620c82b0b12c6ec8b59cb24fa516d25cc03f11470e627fa38a6e20c3156ef');
INSERT INTO "matrix" VALUES(1,'ae96463213c7c6f5ff3f40c9a186cffb49d4a4d681855abbbc5c5c25b87b9ca5');
INSERT INTO "matrix" VALUES(1,'b4a222e8fd37ef9b02791e473426d49cc622795cd4634bc20df4616c327e5c73');
INSERT INTO "matrix" VALUES(1,'c2c95882578a5c657ea2ee76e58cb217e4125c47af0ac494f5a30ac91e091245');
INSERT INTO "matrix" VALUES(1,'eee8cd2c0edf8cf4ce506204697f27964a7b4fdc03a9941ded92572133044656');
INSERT INTO "matrix" VALUES(1,'fd04681ef84f12e09f9f7df2ddd67aeaf80dbf8358e0407bc6edf4b3be2abd35');
INSERT INTO "matrix" VALUES(2,'24fffc45fc849ecc68257f0f9b4802bf9d6280a1a54e65523c48035c0386c3c0');
INSERT INTO "matrix" VALUES(2,'4dcd80b75d83787d03592a5dbcdd5ccb68a4923b0ff06081cce1c5650aa9bb04');
INSERT INTO "matrix" VALUES(2,'4e887562b46d6884515435a2c475532ab5bb8d204440a8db94bfef6942c07998');
INSERT INTO "matrix" VALUES(2,'8d6b9f06291765fe8ca36b184288efeb60075d72a03e4a306df9f15ef9d0269a');
INSERT INTO "matrix" VALUES(2,'9341b36f6cd4df35141b57b0f85679894d2e1139f6d045e24856eefd4db211ea');
INSERT INTO "matrix" VALUES(2,'ae70d0cbdee77295eb0f9f142418aa1c52df8c523f7593721a60eadc0523bbf2');
INSERT INTO "matrix" VALUES(2,'dbc9f987ca7657a6b424c1c9fb9759928a160f57293b99d801a7e352a8068007');
INSERT INTO "matrix" VALUES(2,'dcc98e171b3c936b94f29abb630790ebcc07ac71cde24046a2a675568948e420');
INSERT INTO "matrix" VALUES(2,'e047087267d22d47d80c53ddb6fcbccc7223799c3e7c6bc8bcdf7d5d449d0f54');
INSERT INTO "matrix" VALUES(2,'e2fe99b81af2e51a5fdc610f68f3d1391042f9af2a103c46ecfb89ac87d7ac09');
INSERT INTO "matrix" VALUES(2,'f7f90a3f8c478af68bcece49bb67e8b098086a05e5bb09ea8bdc3ef01039a799');
CREATE TABLE runs (
  id TEXT PRIMARY KEY,            -- SHA-256 of the definition: instance, solver, parameters, seed and limits
  campaign INTEGER NOT NULL REFERENCES campaigns(id),
  track TEXT NOT NULL,
  instance TEXT NOT NULL,         -- catalog id, or the file's name
  checksum TEXT NOT NULL REFERENCES instances(checksum),
  solver TEXT NOT NULL,
  kind TEXT NOT NULL,             -- 'solver' or 'bound'
  solver_hash TEXT NOT NULL,
  seed INTEGER NOT NULL,
  timeout_s REAL NOT NULL,
  memory_mib REAL NOT NULL,
  cores INTEGER NOT NULL,
  started TEXT NOT NULL,          -- UTC, ISO 8601
  stop TEXT NOT NULL,             -- why the process ended: exit, timeout, memory, crash, error, declined, import
  status TEXT NOT NULL,           -- what it is worth: ok, timeout, memory, crash, error, declined, infeasible,
                                  --   none (no solution or bound), contradiction
  reason TEXT NOT NULL,           -- one sentence, empty for ok
  feasible INTEGER NOT NULL,      -- 1 if at least one verified feasible solution
  cost TEXT,                      -- least verified cost, decimal text, exact; NULL if none
  cost_float REAL,
  lower_bound TEXT,               -- greatest bound reported, decimal text; NULL if none
  lower_bound_float REAL,
  wall_s REAL NOT NULL,           -- start of the process to its end, the referee's clock
  cpu_s REAL NOT NULL,            -- user + system, whole process tree
  peak_mib REAL NOT NULL,         -- greatest memory of the whole process tree
  solution BLOB,                  -- zlib of the JSON of the best solution; NULL if none
  log TEXT NOT NULL               -- the last lines that the solver wrote to stderr and stdout
);
INSERT INTO "runs" VALUES('8102cf3177e12e2519febd731b90265feb66e8600dc5bd1e1ed707da87893334',1,'intraop','triangle','20fc292f6d886f03abe15e58dc863c828ab560bd6831403cac243e2000422176','greedy','solver','d41f6db993546c95517785453a63e3aebeed242a7396013f9177b1cb1eb51e09',0,1.0,4096.0,1,'2026-11-21T09:02:26.891+00:00','exit','ok','',1,'6',6.0,NULL,NULL,2.22604107999359257519e-01,0.220543,34.1328125,X'789C8B36D0510022C35800096F01E2','');
INSERT INTO "runs" VALUES('62cf952441dd067a28b22c9db27ddb164780af4bd8d59ccadd6dccc356e5014a',1,'intraop','triangle','20fc292f6d886f03abe15e58dc863c828ab560bd6831403cac243e2000422176','greedy','solver','d41f6db993546c95517785453a63e3aebeed242a7396013f9177b1cb1eb51e09',1,1.0,4096.0,1,'2026-11-21T09:02:27.122+00:00','exit','ok','',1,'6',6.0,NULL,NULL,1.90062084000601316802e-01,0.187435,34.14453125,X'789C8B36D0510022C35800096F01E2','');
INSERT INTO "runs" VALUES('85211528be3998013d56ff1d0069e0e343b5917d7442e6dd0be1710791723891',1,'intraop','triangle','20fc292f6d886f03abe15e58dc863c828ab560bd6831403cac243e2000422176','random','solver','fae6b96daca914805edc842f22e228cf9cf4ba1575b4634756bac41527a6c9a9',0,1.0,4096.0,1,'2026-11-21T09:02:27.317+00:00','exit','ok','',1,'6',6.0,NULL,NULL,7.29181239999888930469e-01,0.719941,35.8984375,X'789C8B36D4513000A25800097501E2','');
INSERT INTO "runs" VALUES('04004c268f17a4118cb5c426c392ba12b3a34ed7bb36714a2995dcb6f9811269',1,'intraop','triangle','20fc292f6d886f03abe15e58dc863c828ab560bd6831403cac243e2000422176','random','solver','fae6b96daca914805edc842f22e228cf9cf4ba1575b4634756bac41527a6c9a9',1,1.0,4096.0,1,'2026-11-21T09:02:28.052+00:00','exit','ok','',1,'6',6.0,NULL,NULL,7.28742097999202087521e-01,7.25344999999999906492e-01,35.890625,X'789C8B36D4513000A25800097501E2','');
INSERT INTO "runs" VALUES('776da8d1814d12b907d6cbef3dc6b830cebf50f7a77b631dae07e82dea159df3',1,'intraop','triangle','20fc292f6d886f03abe15e58dc863c828ab560bd6831403cac243e2000422176','cfn-relaxed','bound','9208690a208ab37e0a2a740f089aedd11b7b821e22630dd98ab6d0573e4505db',0,1.0,4096.0,1,'2026-11-21T09:02:28.795+00:00','exit','ok','',0,NULL,NULL,'3',3.0,2.37737182000273605808e-01,0.209392,43.86328125,NULL,'');
INSERT INTO "runs" VALUES('118d3c94ea42c25ae87ce3efc4bba6c8193a524ec45eb4b4a5d5f219dd2ec6a3',1,'intraop','triangle','20fc292f6d886f03abe15e58dc863c828ab560bd6831403cac243e2000422176','simple','bound','7ab891bf3b078233c6d469caa129621fe0609ad9f8515c76b6a471d10d8ef83b',0,1.0,4096.0,1,'2026-11-21T09:02:29.037+00:00','exit','ok','',0,NULL,NULL,'3',3.0,1.71594269999332027509e-01,0.168385,32.03125,NULL,'');
INSERT INTO "runs" VALUES('ae96463213c7c6f5ff3f40c9a186cffb49d4a4d681855abbbc5c5c25b87b9ca5',1,'pipeline','chain','44826f64a900c51f44247bb50b40c73976c29cece82ee6a3870c26205b087fb4','brkga-100','solver','490cee77f40fbe801d2d400c4f088b22949e68dc36510ce0343012ec39a103a0',0,1.0,4096.0,1,'2026-11-21T09:02:29.213+00:00','exit','ok','',1,'11.0',11.0,NULL,NULL,1.67029256001114845275e-01,0.162836,35.078125,X'789C8B36D051802043208A050016E002DB','');
INSERT INTO "runs" VALUES('eee8cd2c0edf8cf4ce506204697f27964a7b4fdc03a9941ded92572133044656',1,'pipeline','chain','44826f64a900c51f44247bb50b40c73976c29cece82ee6a3870c26205b087fb4','brkga-100','solver','490cee77f40fbe801d2d400c4f088b22949e68dc36510ce0343012ec39a103a0',1,1.0,4096.0,1,'2026-11-21T09:02:29.400+00:00','exit','ok','',1,'11.0',11.0,NULL,NULL,1.58323539999400964006e-01,0.155868,35.11328125,X'789C8B36D051802043208A050016E002DB','');
INSERT INTO "runs" VALUES('90b793b32250ccfd430fdd5a0fb04505b2df0e4a9107c3bc66340123046b5bc6',1,'pipeline','chain','44826f64a900c51f44247bb50b40c73976c29cece82ee6a3870c26205b087fb4','random-1','solver','0ed0cd8444d2bbb08ff65d92955785a0bb12137d049082f9e59a692af1e607f2',0,1.0,4096.0,1,'2026-11-21T09:02:29.564+00:00','exit','ok','',1,'11.0',11.0,NULL,NULL,0.159381683999527,0.156903,34.99609375,X'789C8B36D051802043208A050016E002DB','');
INSERT INTO "runs" VALUES('fd04681ef84f12e09f9f7df2ddd67aeaf80dbf8358e0407bc6edf4b3be2abd35',1,'pipeline','chain','44826f64a900c51f44247bb50b40c73976c29cece82ee6a3870c26205b087fb4','random-1','solver','0ed0cd8444d2bbb08ff65d92955785a0bb12137d049082f9e59a692af1e607f2',1,1.0,4096.0,1,'2026-11-21T09:02:29.728+00:00','exit','ok','',1,'11.0',11.0,NULL,NULL,1.97667430998990312218e-01,0.194668,34.96484375,X'789C8B36D051802043208A050016E002DB','');
INSERT INTO "runs" VALUES('b4a222e8fd37ef9b02791e473426d49cc622795cd4634bc20df4616c327e5c73',1,'pipeline','chain','44826f64a900c51f44247bb50b40c73976c29cece82ee6a3870c26205b087fb4','bottleneck','bound','56cbbff0de56bb0f8cde53f67c94c984dd7330f1fd6daa4a83897c272eaecd39',0,1.0,4096.0,1,'2026-11-21T09:02:29.931+00:00','exit','ok','',1,'11.0',11.0,'10.999988987500013',1.09999889875000125273e+01,0.303938430000926,0.255359,55.3984375,X'789C8B36D051802043208A050016E002DB','');
INSERT INTO "runs" VALUES('a27620c82b0b12c6ec8b59cb24fa516d25cc03f11470e627fa38a6e20c3156ef',1,'pipeline','chain','44826f64a900c51f44247bb50b40c73976c29cece82ee6a3870c26205b087fb4','exact','bound','143f320856192d89f129de4294f5ceb66ecd3a6ffc551745d8529c0d29544242',0,1.0,4096.0,1,'2026-11-21T09:02:30.242+00:00','exit','ok','',1,'11.0',11.0,'10.999988994531254',1.09999889945312538945e+01,1.95705359999919892288e-01,0.191982,54.5546875,X'789C8B36D051802043208A050016E002DB','');
INSERT INTO "runs" VALUES('c2c95882578a5c657ea2ee76e58cb217e4125c47af0ac494f5a30ac91e091245',1,'pipeline','chain','44826f64a900c51f44247bb50b40c73976c29cece82ee6a3870c26205b087fb4','simple','bound','0092d7b3299a8c1b1f7c5a945d634223ff4f284a778fdf7fa69398f734ee3ad0',0,1.0,4096.0,1,'2026-11-21T09:02:30.442+00:00','exit','ok','',0,NULL,NULL,'7.999999999992',7.999999999992,1.51597957999911159276e-01,0.148843,32.20703125,NULL,'');
INSERT INTO "runs" VALUES('8d6b9f06291765fe8ca36b184288efeb60075d72a03e4a306df9f15ef9d0269a',2,'pipeline','chain','44826f64a900c51f44247bb50b40c73976c29cece82ee6a3870c26205b087fb4','cyclic','solver','8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b',0,1.0,4096.0,1,'2026-11-21T09:02:31.057+00:00','exit','infeasible','block: expected no cycle among the blocks, found 0 -> 1 -> 0 through the edges 0 -> 1, 1 -> 2',0,NULL,NULL,NULL,NULL,1.34045500999491196125e-01,0.133552,32.83984375,NULL,'');
INSERT INTO "runs" VALUES('24fffc45fc849ecc68257f0f9b4802bf9d6280a1a54e65523c48035c0386c3c0',2,'pipeline','chain','44826f64a900c51f44247bb50b40c73976c29cece82ee6a3870c26205b087fb4','declines','solver','8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b',0,1.0,4096.0,1,'2026-11-21T09:02:31.210+00:00','declined','declined','more than zero nodes',0,NULL,NULL,NULL,NULL,1.34634669999286415986e-01,1.33947999999999983744e-01,32.83984375,NULL,'');
INSERT INTO "runs" VALUES('ae70d0cbdee77295eb0f9f142418aa1c52df8c523f7593721a60eadc0523bbf2',2,'pipeline','chain','44826f64a900c51f44247bb50b40c73976c29cece82ee6a3870c26205b087fb4','good','solver','8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b',0,1.0,4096.0,1,'2026-11-21T09:02:31.349+00:00','exit','ok','',1,'11.0',11.0,'7.999999999992',7.999999999992,1.49785614999927929602e-01,0.147366,33.03515625,X'789C8B36D051802043208A050016E002DB','');
INSERT INTO "runs" VALUES('dcc98e171b3c936b94f29abb630790ebcc07ac71cde24046a2a675568948e420',2,'pipeline','chain','44826f64a900c51f44247bb50b40c73976c29cece82ee6a3870c26205b087fb4','hangs','solver','8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b',0,1.0,4096.0,1,'2026-11-21T09:02:31.504+00:00','timeout','timeout','killed at the time limit of 1 s',1,'16.0',16.0,NULL,NULL,1.00043391299914219416e+00,0.110859,32.84765625,X'789C8B36D05140A0580016D902D9','');
INSERT INTO "runs" VALUES('4dcd80b75d83787d03592a5dbcdd5ccb68a4923b0ff06081cce1c5650aa9bb04',2,'pipeline','chain','44826f64a900c51f44247bb50b40c73976c29cece82ee6a3870c26205b087fb4','liar','solver','8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b',0,1.0,4096.0,1,'2026-11-21T09:02:32.517+00:00','exit','contradiction','claims the lower bound 1000000000.0, but has a solution of cost 16.0',1,'16.0',16.0,'1000000000.0',1000000000.0,1.43458387999999104067e-01,1.41412999999999983158e-01,32.91015625,X'789C8B36D05140A0580016D902D9','');
INSERT INTO "runs" VALUES('e2fe99b81af2e51a5fdc610f68f3d1391042f9af2a103c46ecfb89ac87d7ac09',2,'pipeline','chain','44826f64a900c51f44247bb50b40c73976c29cece82ee6a3870c26205b087fb4','nan','solver','8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b',0,1.0,4096.0,1,'2026-11-21T09:02:32.665+00:00','error','error','ValueError: reported a solution that is not plain JSON: Out of range float values are not JSON compliant (worker.py:43)',0,NULL,NULL,NULL,NULL,1.49651840001752134412e-01,0.147272,32.8671875,NULL,'Traceback (most recent call last):
  File "shardmark/harness/worker.py", line 79, in run_job
    answer = find_solver(job)(load_instance(job), run)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "shardmark/harness/worker.py", line 113, in <lambda>
    return lambda instance, run: solver.function(instance, run, **solver.params)
                                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "shardmark/tests/harness/zoo/zoo.py", line 138, in nan
    run.report([float("nan")] * instance.nodes)
  File "shardmark/harness/worker.py", line 49, in report
    self.send("solution", solution)
  File "shardmark/harness/worker.py", line 43, in send
    raise ValueError(f"reported a {kind} that is not plain JSON: {error}") from None
ValueError: reported a solution that is not plain JSON: Out of range float values are not JSON compliant
');
INSERT INTO "runs" VALUES('f7f90a3f8c478af68bcece49bb67e8b098086a05e5bb09ea8bdc3ef01039a799',2,'pipeline','chain','44826f64a900c51f44247bb50b40c73976c29cece82ee6a3870c26205b087fb4','nonsense','solver','8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b',0,1.0,4096.0,1,'2026-11-21T09:02:32.818+00:00','exit','infeasible','solution: expected a list of 5 integers, found true',0,NULL,NULL,NULL,NULL,1.48552304000986623577e-01,1.47797999999999984943e-01,32.83203125,NULL,'');
INSERT INTO "runs" VALUES('e047087267d22d47d80c53ddb6fcbccc7223799c3e7c6bc8bcdf7d5d449d0f54',2,'pipeline','chain','44826f64a900c51f44247bb50b40c73976c29cece82ee6a3870c26205b087fb4','raises','solver','8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b',0,1.0,4096.0,1,'2026-11-21T09:02:32.972+00:00','error','error','RuntimeError: the oracle is silent (zoo.py:54)',1,'16.0',16.0,NULL,NULL,1.72908974998790654353e-01,0.170179,32.08203125,X'789C8B36D05140A0580016D902D9','Traceback (most recent call last):
  File "shardmark/harness/worker.py", line 79, in run_job
    answer = find_solver(job)(load_instance(job), run)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "shardmark/harness/worker.py", line 113, in <lambda>
    return lambda instance, run: solver.function(instance, run, **solver.params)
                                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "shardmark/tests/harness/zoo/zoo.py", line 54, in raises
    raise RuntimeError("the oracle is\nsilent")
RuntimeError: the oracle is
silent
');
INSERT INTO "runs" VALUES('9341b36f6cd4df35141b57b0f85679894d2e1139f6d045e24856eefd4db211ea',2,'pipeline','chain','44826f64a900c51f44247bb50b40c73976c29cece82ee6a3870c26205b087fb4','segfaults','solver','8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b',0,1.0,4096.0,1,'2026-11-21T09:02:33.149+00:00','crash','crash','killed by SIGSEGV',0,NULL,NULL,NULL,NULL,1.16738333999819587916e-01,1.14180999999999990834e-01,26.5078125,NULL,'');
INSERT INTO "runs" VALUES('dbc9f987ca7657a6b424c1c9fb9759928a160f57293b99d801a7e352a8068007',2,'pipeline','chain','44826f64a900c51f44247bb50b40c73976c29cece82ee6a3870c26205b087fb4','silent','solver','8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b',0,1.0,4096.0,1,'2026-11-21T09:02:33.270+00:00','exit','none','reported no solution',0,NULL,NULL,NULL,NULL,1.80958507999093853868e-01,0.178377,32.8359375,NULL,'');
INSERT INTO "runs" VALUES('4e887562b46d6884515435a2c475532ab5bb8d204440a8db94bfef6942c07998',2,'pipeline','chain','44826f64a900c51f44247bb50b40c73976c29cece82ee6a3870c26205b087fb4','bounds','bound','8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b',0,1.0,4096.0,1,'2026-11-21T09:02:33.454+00:00','exit','ok','',0,NULL,NULL,'2',2.0,1.57207948999712243676e-01,0.156549,32.890625,NULL,'');
CREATE TABLE solvers (            -- who solved; a row a version of a solver
  hash TEXT NOT NULL,             -- of its source
  track TEXT NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,             -- 'solver' or 'bound'
  source TEXT NOT NULL,           -- citation
  description TEXT NOT NULL,
  params TEXT NOT NULL,           -- JSON object
  PRIMARY KEY (track, name, hash)
);
INSERT INTO "solvers" VALUES('d41f6db993546c95517785453a63e3aebeed242a7396013f9177b1cb1eb51e09','intraop','greedy','solver','steepest regret construction, first-improvement descent','Decide node after node, largest regret first, then improve single nodes; best of several prices of memory.','{}');
INSERT INTO "solvers" VALUES('fae6b96daca914805edc842f22e228cf9cf4ba1575b4634756bac41527a6c9a9','intraop','random','solver','uniform sampling','Sample strategies until time is up; before anything fits, report what exceeds the limit least.','{}');
INSERT INTO "solvers" VALUES('9208690a208ab37e0a2a740f089aedd11b7b821e22630dd98ab6d0573e4505db','intraop','cfn-relaxed','bound','Soft Constraints, Strong Solutions, Equation (5) with multipliers of zero','Minimise the cost without the memory limit, over strategies that fit beside the least of all others (toulbar2).','{}');
INSERT INTO "solvers" VALUES('7ab891bf3b078233c6d469caa129621fe0609ad9f8515c76b6a471d10d8ef83b','intraop','simple','bound','sum of least node and edge costs','Add up the least cost of every node and of every edge.','{}');
INSERT INTO "solvers" VALUES('490cee77f40fbe801d2d400c4f088b22949e68dc36510ce0343012ec39a103a0','pipeline','brkga-100','solver','Archer et al. 2024, Algorithm 2 and Appendix C.1; Gonçalves & Resende 2011','Evolve node priorities with a biased random-key genetic algorithm.','{"population": 10, "generations": 10}');
INSERT INTO "solvers" VALUES('0ed0cd8444d2bbb08ff65d92955785a0bb12137d049082f9e59a692af1e607f2','pipeline','random-1','solver','Archer et al. 2024, Section 4.2 and Appendix C.1','Slice the topological orders of independent uniform node priorities; keep the best.','{"orders": 1}');
INSERT INTO "solvers" VALUES('56cbbff0de56bb0f8cde53f67c94c984dd7330f1fd6daa4a83897c272eaecd39','pipeline','bottleneck','bound','Archer et al. 2024, Section 3.2','Bound the cost of the block that does the work of Lemma 3.3, all others merged into two superblocks.','{}');
INSERT INTO "solvers" VALUES('143f320856192d89f129de4294f5ceb66ecd3a6ffc551745d8529c0d29544242','pipeline','exact','bound','Archer et al. 2024, Section 3.1, Figure 3','Bound the cost by the exact program, narrowed to what can be better than the best slicing found.','{}');
INSERT INTO "solvers" VALUES('0092d7b3299a8c1b1f7c5a945d634223ff4f284a778fdf7fa69398f734ee3ad0','pipeline','simple','bound','Archer et al. 2024, Lemma 3.3','Some block does at least the work of the heaviest node, and at least an even share of all work.','{}');
INSERT INTO "solvers" VALUES('8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b','pipeline','cyclic','solver','','Report a partition whose quotient graph has a cycle.','{}');
INSERT INTO "solvers" VALUES('8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b','pipeline','declines','solver','','Decline.','{}');
INSERT INTO "solvers" VALUES('8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b','pipeline','good','solver','a test','Put everything into one block, then cut a chain in two.','{}');
INSERT INTO "solvers" VALUES('8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b','pipeline','hangs','solver','','Report, then sleep past every limit.','{}');
INSERT INTO "solvers" VALUES('8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b','pipeline','liar','solver','','Claim a lower bound above its own solution.','{}');
INSERT INTO "solvers" VALUES('8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b','pipeline','nan','solver','','Report NaN.','{}');
INSERT INTO "solvers" VALUES('8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b','pipeline','nonsense','solver','','Report what no solution is.','{}');
INSERT INTO "solvers" VALUES('8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b','pipeline','raises','solver','','Report, then fail.','{}');
INSERT INTO "solvers" VALUES('8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b','pipeline','segfaults','solver','','Read address zero.','{}');
INSERT INTO "solvers" VALUES('8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b','pipeline','silent','solver','','Report nothing.','{}');
INSERT INTO "solvers" VALUES('8ec7dc88f6e8a56e1479492fa8bebc5e277350ab04a72dffcdb711c40cfef10b','pipeline','bounds','bound','','Report two bounds, the better one first.','{}');
CREATE INDEX runs_by_instance ON runs (track, instance, solver, seed);
PRAGMA user_version=1;
COMMIT;
